// unio/detail/chrono.hpp: durations, time points, the steady and the system clock, and their literals; nothing else of <chrono>.
//
// Here because libstdc++'s <chrono> brings 9,000 lines with it (calendars, and the streams and locales that print them) into
// every program that includes unio. Since GCC 12 its part with the clocks stands alone: <mutex> takes it as well. Any other
// library's <chrono> is taken whole. Who needs dates, or prints durations, includes <chrono>.

#pragma once

#include <version> // says which library it is

#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= 12 && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif
