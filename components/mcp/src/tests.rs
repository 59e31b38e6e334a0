//! Tests of the endpoint with an in-memory host: by revision, by tool, and with hostile mail.

mod client;
mod events;
mod full;
mod handshake;
mod hostile;
mod http;
mod listed;
mod reading;
mod shapes;
mod stateless;
mod writing;
