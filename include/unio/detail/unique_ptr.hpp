// unio/detail/unique_ptr.hpp: std::unique_ptr, and nothing else of <memory>.
//
// Here because libstdc++'s <memory> brings 10,000 lines with it (shared_ptr, the parallel algorithms) into every program
// that includes unio, which needs one class of it. Where the library has no such part, all of it is taken.

#pragma once

#if __has_include(<bits/unique_ptr.h>)
#include <bits/unique_ptr.h>
#else
#include <memory>
#endif
