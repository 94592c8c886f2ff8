// A child that is killed at some moment, and a folder for what it works on.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>

struct temporary_folder {
  temporary_folder() : path((std::filesystem::temp_directory_path() / "bank-XXXXXX").string()) {
    if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::system_category(), path);
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// Runs `body`, which does not end by itself, in a child process, and kills it after up to 20 ms.
template <class Body> void kill_at_random(unsigned seed, Body body) {
  pid_t const child = ::fork();
  if (child < 0) throw std::system_error(errno, std::system_category(), "fork");
  if (child == 0) {
    ::alarm(60);
    try {
      body();
    } catch (std::exception const& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(1);
  }
  std::minstd_rand random(seed * 7919 + 1);
  random.discard(3);
  ::usleep(static_cast<useconds_t>(random() % 20000));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) throw std::system_error(ECHILD, std::system_category(), "the child ended by itself");
}
