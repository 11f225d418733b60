// deltafin: runs a model of the Kimi K3 family, alone or over expert nodes.

#include "common/net/keepalive.h"
#include "common/net/termination_signal.h"
#include "coordinator/cli/program.h"

int main(int argc, char** argv) {
  deltafin::PollConnectionsInBackground();
  deltafin::TerminationSignal signals("deltafin");
  return deltafin::RunProgram(argc, argv, signals);
}
