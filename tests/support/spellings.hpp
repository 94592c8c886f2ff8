// One operation in its three spellings, for fixtures that play each of them with the same arguments: the
// sender (`describe`), the blocking call (`block`) and the awaited one (`await`).
//
//   UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory))   members of `ends.source`
//   UNIO_FREE_SPELLINGS(async_splice, splice, from, to, request)                  functions of unio
//   UNIO_CHAIN_SPELLINGS(first(), second())                                       a chain; `sender` is given

#pragma once

#include <unio/deadline.hpp>

#define UNIO_SPELLINGS(sender_name, object, verb, ...)                               \
  using sender = unio::sender_name;                                                  \
  template <class S = sender> S describe(unio::deadline d) {                         \
    return S(object __VA_OPT__(, ) __VA_ARGS__, d);                                  \
  }                                                                                  \
  auto block(unio::deadline d) { return object.verb(__VA_ARGS__ __VA_OPT__(, ) d); } \
  auto await(unio::deadline d) { return object.co_##verb(__VA_ARGS__ __VA_OPT__(, ) d); }

#define UNIO_FREE_SPELLINGS(sender_name, function, ...)                                  \
  using sender = unio::sender_name;                                                      \
  template <class S = sender> S describe(unio::deadline d) { return S(__VA_ARGS__, d); } \
  auto block(unio::deadline d) { return unio::function(__VA_ARGS__, d); }                \
  auto await(unio::deadline d) { return unio::co_##function(__VA_ARGS__, d); }

#define UNIO_CHAIN_SPELLINGS(...)                                                        \
  template <class S = sender> S describe(unio::deadline d) { return S(d, __VA_ARGS__); } \
  auto block(unio::deadline d) { return unio::link(d, __VA_ARGS__); }                    \
  auto await(unio::deadline d) { return unio::co_link(d, __VA_ARGS__); }
