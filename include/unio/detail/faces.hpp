// unio/detail/faces.hpp: the table of each operation (src/op).

#pragma once

#include <unio/operation.hpp>

namespace unio::detail {

extern UNIO_API driver::operation_faces const read_faces, write_faces, barrier_faces, poll_faces, close_faces,
    connect_faces, accept_faces, accept_many_faces, send_zero_copy_faces, wait_event_faces, wait_faces,
    no_op_faces, splice_faces, open_faces, lock_range_faces, lock_file_faces, link_faces, receive_from_faces,
    send_to_faces, receive_error_faces, receive_batch_faces, send_batch_faces, send_handles_faces,
    receive_handles_faces;

} // namespace unio::detail
