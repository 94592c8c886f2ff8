/* For the servers in C. */
#pragma once

/* What a connection has. `buffer` bytes are its own; none: it uses one that all share. */
struct connection {
  int fd;
  char buffer[];
};
