//! The endpoint as an agent sees it, over a host in memory: revision by revision, tool by tool, and what mail tries.

mod client;
mod handshake;
mod hostile;
mod http;
mod listed;
mod reading;
mod shapes;
mod stateless;
mod writing;
