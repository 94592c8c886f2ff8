// Shows     a log whose records are durable when append() returns, at the price of one barrier for many. A
//           barrier takes as long as the disk does, and what comes meanwhile forms the next group: one write,
//           one barrier, and all that waited go on. After a crash recover() finds how far the log is whole.
// Run       build/release/examples/example_group_commit
// Read next docs/howto/durable-log.md, <unio/sync.hpp>

#include <unio/unio.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace {

using unio::file_handle;
using mode = unio::handle::mode;

constexpr std::size_t longest = 1 << 16;

struct head {
  std::uint32_t bytes;    ///< of the text that follows
  std::uint32_t checksum; ///< of the text, and of its place: what lay there before is no record
};

// FNV-1a.
std::uint32_t checksum_of(std::span<char const> text, unio::extent_type at) {
  auto sum = static_cast<std::uint32_t>(at) ^ 2166136261U;
  for (char const c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  return sum;
}

class durable_log {
 public:
  /// `end`: where recover() says.
  durable_log(file_handle file, unio::extent_type end) : file_(std::move(file)), end_(end) {}

  /// The record is on the disk when this has returned. An error: it may be, or not.
  unio::task<unio::result<void>> append(std::string_view text) {
    // recover() would take it for the end of the log.
    if (text.size() > longest) co_return std::make_error_code(std::errc::message_size);
    if (failed_) co_return failed_;
    std::shared_ptr<group> const mine = next_;
    auto const at = end_ + mine->bytes.size();
    head const h{static_cast<std::uint32_t>(text.size()), checksum_of(text, at)};
    auto const* const bytes = reinterpret_cast<char const*>(&h);
    mine->bytes.insert(mine->bytes.end(), bytes, bytes + sizeof h);
    mine->bytes.insert(mine->bytes.end(), text.begin(), text.end());
    wanted_.set();
    if (auto const waited = co_await mine->ended.co_wait(); !waited) co_return waited.error();
    if (mine->failed) co_return mine->failed;
    co_return unio::result<void>();
  }

  /// Writes groups until it is stopped. One coroutine, beside those that append.
  unio::task<> run() {
    for (;;) {
      if (!co_await wanted_.co_wait()) co_return; // asked to stop
      std::shared_ptr<group> const now = std::exchange(next_, std::make_shared<group>());
      auto const at = std::exchange(end_, end_ + now->bytes.size());
      // After a barrier that has failed nothing tells what is on the disk, and the next one may say that all
      // is well: the kernel has dropped what it could not write. So this log takes nothing more.
      if (!failed_) failed_ = co_await write_all(now->bytes, at);
      if (!failed_) {
        if (auto const durable = co_await file_.co_barrier(unio::barrier_kind::wait_data_only); !durable)
          failed_ = durable.error();
      }
      now->failed = failed_;
      now->ended.set();
      ++groups_;
    }
  }

  [[nodiscard]] int groups() const { return groups_; }

 private:
  struct group {
    std::vector<char> bytes;
    std::error_code failed;
    unio::event ended;
  };

  unio::task<std::error_code> write_all(std::span<char const> rest, unio::extent_type at) {
    while (!rest.empty()) {
      auto const n = co_await file_.co_write({unio::const_buffer(rest.data(), rest.size()), at});
      if (!n) co_return n.error();
      rest = rest.subspan(n.bytes_transferred());
      at += n.bytes_transferred();
    }
    co_return std::error_code();
  }

  file_handle file_;
  unio::extent_type end_; ///< of the group that is being filled: where it begins
  std::shared_ptr<group> next_ = std::make_shared<group>();
  unio::auto_reset_event wanted_;
  std::error_code failed_;
  int groups_ = 0;
};

// Calls `f` with each record that is whole, cuts off what follows the last, and says where that ends.
template <class F> unio::extent_type recover(file_handle& file, F f) {
  std::vector<char> text;
  unio::extent_type at = 0;
  for (;;) {
    head h{};
    auto const got = file.read({unio::mutable_buffer(&h, sizeof h), at}).value();
    if (got.bytes() != sizeof h || h.bytes > longest) break;
    text.resize(h.bytes);
    auto const all = file.read({unio::mutable_buffer(text.data(), text.size()), at + sizeof h}).value();
    if (all.bytes() != h.bytes || checksum_of(text, at) != h.checksum) break;
    f(std::string_view(text.data(), text.size()));
    at += sizeof h + h.bytes;
  }
  file.truncate(at).value();
  file.barrier().value(); // before new records are written where the rest was
  return at;
}

constexpr int clients = 64;

// Appends "CLIENT NUMBER" for ever, and says so to `acknowledged` once it is durable.
unio::task<> client(durable_log& log, int me, unio::pipe_handle& acknowledged) {
  for (int n = 0;; ++n) {
    (co_await log.append(std::to_string(me) + ' ' + std::to_string(n))).value();
    std::array<int, 2> const said{me, n};
    (void)acknowledged.write(unio::const_buffer(said.data(), sizeof said));
  }
}

// What is killed: the parent has seen enough.
unio::task<> serve(char const* name, unio::pipe_handle& acknowledged) {
  durable_log log(file_handle::file({}, name, mode::write).value(), 0);
  unio::task_group group(co_await unio::this_coro::environment);
  for (int i = 0; i != clients; ++i) group.start(client(log, i, acknowledged));
  group.start(log.run());
  co_await group.co_join();
}

unio::task<> append_some(durable_log& log, int records) {
  for (int n = 0; n != records; ++n) (co_await log.append("after the crash")).value();
}

// Many at once, and then no more: how many groups it took.
unio::task<int> go_on(file_handle file, unio::extent_type end, int records) {
  durable_log log(std::move(file), end);
  unio::task_group writer(co_await unio::this_coro::environment);
  writer.start(log.run());
  {
    unio::task_group group(co_await unio::this_coro::environment);
    for (int i = 0; i != clients; ++i) group.start(append_some(log, records));
    co_await group.co_join();
  }
  writer.request_stop();
  co_await writer.co_join();
  co_return log.groups();
}

} // namespace

int main() {
  file_handle file =
      file_handle::uniquely_named_file(unio::path_handle::path("/tmp").value(), "log-").value();
  std::string const name = file.current_path().value();
  auto [reads, writes] = unio::pipe_handle::anonymous().value();
  pid_t const child = ::fork();
  if (child == 0) {
    (void)reads.close();
    unio::run(serve(name.c_str(), writes));
    ::_exit(0);
  }
  (void)writes.close();

  std::array<int, clients> last{}; // the numbers that were acknowledged to each, and one more
  std::array<int, 2> said{};
  for (int n = 0;; ++n) {
    if (n == 2000) ::kill(child, SIGKILL);
    if (reads.read(unio::mutable_buffer(said.data(), sizeof said)).value().bytes() != sizeof said) break;
    last[static_cast<std::size_t>(said[0])] = said[1] + 1;
  }
  int status = 0;
  ::waitpid(child, &status, 0);

  // The crash may have left a record that is not whole; here one is made so.
  int acknowledged = 0;
  for (int const n : last) acknowledged += n;
  auto const size = file.maximum_extent().value();
  head const torn{1000, 0};
  (void)file.write({unio::const_buffer(&torn, sizeof torn), size}).value();
  std::array<int, clients> found{};
  int records = 0;
  auto const end = recover(file, [&](std::string_view text) {
    int me = 0;
    int n = 0;
    if (std::sscanf(std::string(text).c_str(), "%d %d", &me, &n) == 2)
      found[static_cast<std::size_t>(me)] = n + 1;
    ++records;
  });
  bool none_lost = end <= size;
  for (std::size_t i = 0; i != clients; ++i) none_lost = none_lost && found[i] >= last[i];
  std::printf("%d records acknowledged before the crash, %s; %d found\n", acknowledged,
              none_lost ? "none lost" : "SOME LOST", records);

  file_handle again = file_handle::file({}, name, mode::write).value();
  int const groups = unio::run(go_on(std::move(again), end, 20));
  int after = 0;
  recover(file, [&](std::string_view text) { after += text == "after the crash" ? 1 : 0; });
  (void)file.unlink();
  std::printf("%d records after it, in %d groups\n", after, groups);
  return none_lost && after == clients * 20 && groups < after ? 0 : 1;
}
