// One half of a program of Asio.

#include <asio/io_context.hpp>
#include <asio/post.hpp>

int other();

int main() {
  asio::io_context context;
  asio::post(context, [] {});
  return context.run() == 1 ? other() : 1;
}
