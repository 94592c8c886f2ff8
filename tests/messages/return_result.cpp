// A failure that is passed on as the result that it came in, which has another value.
// any: 1 error: this is a result of another type: write co_return r.error(), or *r

#include <unio/file_handle.hpp>
#include <unio/task.hpp>

unio::task<unio::result<int>> opens() {
  auto const file = co_await unio::co_open({}, "/etc/passwd");
  if (!file) co_return file;
  co_return 1;
}
