// Why a name has no answer, as std::error_code.

#include "core/immortal.hpp"

#include <unio/resolver.hpp>

namespace unio::inline v0_1 {
namespace {

class resolve_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio.resolve"; }
  std::string message(int value) const override {
    switch (static_cast<resolve_error>(value)) {
      case resolve_error::no_such_name:
        return "there is no such name";
      case resolve_error::no_data:
        return "the name has no address or record of the kind asked for";
      case resolve_error::server_failed:
        return "the name servers could not find out";
      case resolve_error::refused:
        return "the name servers refused to answer";
      case resolve_error::no_answer:
        return "no name server has answered";
      case resolve_error::malformed_answer:
        return "the name server's answer is malformed";
      case resolve_error::invalid_name:
        return "the text cannot be a name";
      case resolve_error::libc_failed:
        return "the C library's look-up has failed";
    }
    return "error " + std::to_string(value) + " of resolving";
  }
};

constinit detail::immortal<resolve_category_type> the_resolve_category;

} // namespace

std::error_category const& resolve_category() noexcept { return the_resolve_category.object; }

} // namespace unio
