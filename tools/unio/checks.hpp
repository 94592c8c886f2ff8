// What is wrong with values of options: for CLI::Option::check.

#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

inline std::string not_empty(std::string const& text) { return text.empty() ? "is empty" : ""; }

inline auto one_of(std::vector<std::string> words) {
  return [words = std::move(words)](std::string const& text) {
    std::string all;
    for (std::string const& word : words) {
      if (word == text) return std::string();
      all += all.empty() ? "" : &word == &words.back() ? " and " : ", ";
      all += word;
    }
    return fmt::format("the choices are {}, not \"{}\"", all, text);
  };
}
