#include "bench/site.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <utility>

#include "common/base/check.h"
#include "tests/testing/lan_box.h"

namespace deltafin::bench {
namespace {

using testing::LanBox;
using testing::LanProfile;

class Loopback : public Site {
 public:
  std::string host(int) const override { return "127.0.0.1"; }
  void Enter(int) const override {}
};

class Lan : public Site {
 public:
  explicit Lan(std::unique_ptr<LanBox> box) : box_(std::move(box)) {}
  std::string host(int place) const override { return box_->host(place); }
  void Enter(int place) const override {
    const std::string path = box_->space(place).path();
    const int space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(space >= 0 && setns(space, CLONE_NEWNET) == 0);
    close(space);
  }

 private:
  std::unique_ptr<LanBox> box_;
};

}  // namespace

std::unique_ptr<Site> LoopbackSite() { return std::make_unique<Loopback>(); }

std::unique_ptr<Site> LanSite(int num_places) {
  auto box = LanBox::Create(LanProfile::kLan, num_places);
  CHECK_OK(box.status());
  return std::make_unique<Lan>(*std::move(box));
}

}  // namespace deltafin::bench
