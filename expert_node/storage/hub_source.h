// expert_node/storage/hub_source.h
//
// A revision of a Hugging Face repository as a source of released files: ranges
// of the signed URLs that the Hub redirects to, tried again, resumed and issued
// a second time as the network demands. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_node/storage/hub_client.h"
#include "expert_node/storage/hub_options.h"
#include "expert_node/storage/model_source.h"

namespace deltafin {

// What a source has cost so far.
struct HubCounts {
  uint64_t requests = 0;     // of every kind
  uint64_t body_bytes = 0;   // over the wire, wasted ones included
  uint64_t connections = 0;  // opened
  uint64_t resolves = 0;     // of a file's URL
  uint64_t retries = 0;
  uint64_t pauses = 0;    // asked for by the Hub, shared with others
  uint64_t reissues = 0;  // second requests for slow ranges
};

class HubSource : public ModelSource {
 public:
  // Asks the Hub for the commit of options.revision and its list of files;
  // what is read later is of that commit. Blocks. Errors: those of Read, and
  // NOT_FOUND for repository or revision, INVALID_ARGUMENT for bad options.
  static absl::StatusOr<std::unique_ptr<HubSource>> Create(HubOptions options);
  ~HubSource() override;

  const std::string& name() const override { return name_; }
  const std::vector<SourceFile>& files() const override { return files_; }
  const std::string& commit() const { return commit_; }

  // One range request unless something goes wrong. Files that the Hub serves
  // without ranges can be read only whole. CANCELLED after Cancel.
  absl::Status Read(const std::string& file, uint64_t offset,
                    std::span<uint8_t> out) override;

  // Ends every Read, now and later, with CANCELLED. For Ctrl-C.
  void Cancel();

  HubCounts counts() const;

 private:
  struct Parts;
  HubSource(HubOptions options);

  absl::Status LoadFiles();

  std::unique_ptr<Parts> parts_;
  std::string name_;
  std::string commit_;
  std::vector<SourceFile> files_;
};

}  // namespace deltafin
