//! What a host, a process, a link and its sockets do during a step.
