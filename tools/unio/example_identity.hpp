// Who the TLS server of the tour is: an Ed25519 key that everybody has, so it proves nothing, and a
// certificate that it signed itself, from 2020 to 2120 (openssl-ca(1) -selfsign).

#pragma once

#include <string_view>

namespace tour {

inline constexpr std::string_view example_name = "tour.example";
inline constexpr std::string_view example_certificate =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBKTCB3KADAgECAgEBMAUGAytlcDAXMRUwEwYDVQQDDAx0b3VyLmV4YW1wbGUw\n"
    "IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBcxFTATBgNVBAMMDHRv\n"
    "dXIuZXhhbXBsZTAqMAUGAytlcAMhANrVvynezxRrXu7I6Ebxj+QnbLn8sY2nTN8r\n"
    "KE1RhC5So0swSTAXBgNVHREEEDAOggx0b3VyLmV4YW1wbGUwDwYDVR0TAQH/BAUw\n"
    "AwEB/zAdBgNVHQ4EFgQUvuBT2QwbPvoD7BxSt9MiY8lgqn8wBQYDK2VwA0EA2bPd\n"
    "gXJ1AaqMXtphugkhyZLUGCz6suK1icBDWeM3WZrj53QEbE31elHQRRsj5vcc6ooR\n"
    "2qmTE+A8gcjAGf5TCQ==\n"
    "-----END CERTIFICATE-----\n";
inline constexpr std::string_view example_key =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIOUGJ6RKn8SjxT8H/1+7ABiEQ2GiVxpih5nuxhTFM/jA\n"
    "-----END PRIVATE KEY-----\n";

} // namespace tour
