//! The HTTP server, the router, the host's own routes and the API description.
//!
//! The server rejects an invalid request as early as possible. The server passes a valid request to
//! a handler of the host or to a module, and sends the response. The modules define the behavior of
//! their own routes.
//!
//! | | |
//! |---|---|
//! | [`state`] | the state of a server: routes, rate limits and settings |
//! | [`listener`], `transport`, `unix_socket` | TCP ports and Unix sockets |
//! | [`server`], `accept_task` | accept connections and shut down gracefully |
//! | `proxy_protocol` | the address of the client in the header of a proxy |
//! | [`tls`] | TLS, and the certificate of the service |
//! | `redirect` | redirects from HTTP to HTTPS |
//! | `client_connections`, `descriptors` | limits on connections, per client and in total |
//! | `connection`, `stream`, `write_timeout` | one connection: hyper, timeouts, close |
//! | `http2` | one HTTP/2 connection, with its timeouts |
//! | [`pipeline`] | one request, from its headers to its response |
//! | `framing`, [`request_body`] | checks of a request's head, and reading of its body |
//! | [`router`], [`route_group`], [`openapi`] | the table of routes and the API description |
//! | [`message`], `response` | requests and responses of handlers, headers of all responses |
//! | [`app`], [`routes`] | the state that the host's handlers share, and their routes |
//! | [`admin`] | changes of modules, for administrators and the operator's socket |
//! | [`operator_page`] | the HTML pages for administrators |
//! | [`metrics`] | the listener for metrics |
//! | [`auth`], [`oauth`] | sign-in, and the authorization server |
//! | [`service`] | health, readiness and the API description |

mod accept_task;
pub mod access;
pub mod admin;
pub mod app;
pub mod auth;
mod body_memory;
pub mod call_error;
pub mod client;
mod client_connections;
mod connection;
pub mod cors;
mod descriptors;
mod fields;
mod framing;
mod http2;
pub mod listener;
pub mod message;
pub mod metrics;
pub mod oauth;
pub mod openapi;
pub mod operator_page;
pub mod pipeline;
mod proxy_protocol;
pub mod query;
mod rate_limit;
mod redirect;
pub mod rejection;
pub mod request_body;
mod response;
pub mod response_body;
pub mod route_group;
pub mod router;
pub mod routes;
pub mod server;
pub mod service;
pub mod state;
mod stream;
#[cfg(test)]
pub(crate) mod testing;
pub mod tls;
mod transport;
mod unix_socket;
mod write_timeout;

pub use app::App;
pub use descriptors::required_descriptors;
pub use listener::Listener;
pub use openapi::info::ApiInfo;
pub use router::RouteTable;
pub use routes::route_groups;
pub use server::{Running, serve};
pub use state::{HttpState, State};
