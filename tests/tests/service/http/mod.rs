//! Requests in general: access to every route, rate limits, and malformed requests.

mod body_memory;
mod dns;
mod rude_clients;
mod rude_requests;
mod s5_matrix;
mod s8_exchanges;
mod s8_limits;
