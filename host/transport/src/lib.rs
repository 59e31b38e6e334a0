//! The HTTP server below the routes: listeners, TLS, connections, and the limits on connections and
//! bodies. It passes each request to a [`Handler`], and depends neither on routes nor on
//! callers.
//!
//! | | |
//! |---|---|
//! | [`handler`] | the handler of requests, and the state that it shares with the server |
//! | [`listener`], `transport`, `unix_socket` | TCP ports and Unix sockets |
//! | [`server`], `accept_task` | accept connections and shut down gracefully |
//! | [`private_socket`] | the server on a Unix socket for processes of the same user |
//! | [`client`] | the other end of a connection, and the client behind trusted proxies |
//! | `proxy_protocol` | the address of the client in the header of a proxy |
//! | [`tls`] | TLS, and the certificate of the service |
//! | `client_connections`, `descriptors` | limits on connections, per client and in total |
//! | `connection`, `stream`, `write_timeout` | one connection: hyper, timeouts, close |
//! | `tcp_options` | the options that find clients which have disappeared |
//! | `http2` | one HTTP/2 connection, with its timeouts |
//! | [`framing`] | checks of a request's head |
//! | [`request_body`], [`body_memory`], `fields` | reading of a request's body |

mod accept_task;
pub mod body_memory;
pub mod client;
mod client_connections;
mod connection;
mod descriptors;
pub mod error;
mod fields;
pub mod framing;
pub mod handler;
mod http2;
pub mod listener;
pub mod private_socket;
mod proxy_protocol;
pub mod request_body;
pub mod server;
mod stream;
mod tcp_options;
pub mod tls;
mod unix_socket;
mod write_timeout;

pub use descriptors::{max_streams, required_descriptors};
pub use error::RequestError;
pub use handler::{Handler, ServerState};
pub use hyper::body::{Body, Frame, SizeHint};
pub use listener::{Listener, Role};
pub use server::{Running, serve};
