// deltafin: runs a model of the Kimi K3 family, alone or over expert nodes.

#include "coordinator/cli/program.h"

int main(int argc, char** argv) { return deltafin::RunProgram(argc, argv); }
