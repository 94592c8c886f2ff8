// unio/detail/standard.hpp: std::unique_ptr, and the durations, time points and clocks of <chrono>.
//
// Here because libstdc++'s <memory> and <chrono> add 12,000 lines (shared_ptr, calendars) to every program
// that includes unio. Two of its smaller headers have what unio needs: <barrier> holds a unique_ptr, and
// <shared_mutex> waits until a time point. Programs that need more include <memory> and <chrono>.

#pragma once

#include <version> // says which library it is

#ifdef __GLIBCXX__
#include <barrier>
#include <shared_mutex>
#else
#include <chrono>
#include <memory>
#endif
