// OpenSSL's errors as std::error_code.

#include "core/immortal.hpp"
#include "tls/openssl.hpp"

#include <cerrno>

namespace unio::inline v0_1 {
namespace {

class tls_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio.tls"; }
  std::string message(int value) const override {
    auto const code = static_cast<unsigned long>(static_cast<unsigned>(value));
    char const* const reason = ERR_reason_error_string(code);
    return reason != nullptr ? std::string(reason) : "error " + std::to_string(code) + " of OpenSSL";
  }
};

class verification_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio.tls.verification"; }
  std::string message(int value) const override { return X509_verify_cert_error_string(value); }
};

constinit detail::immortal<tls_category_type> the_tls_category;
constinit detail::immortal<verification_category_type> the_verification_category;

} // namespace

std::error_category const& tls_category() noexcept { return the_tls_category.object; }
std::error_category const& tls_verification_category() noexcept { return the_verification_category.object; }

std::error_code detail::take_error() noexcept {
  unsigned long const code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return {EPROTO, std::system_category()};
  if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE) return {ENOMEM, std::system_category()};
  if (ERR_SYSTEM_ERROR(code)) return {ERR_GET_REASON(code), std::system_category()};
  return {static_cast<int>(code), tls_category()}; // 31 bits: ERR_GET_LIB, ERR_GET_REASON
}

} // namespace unio
