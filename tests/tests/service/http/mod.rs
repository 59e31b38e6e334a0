//! Requests as such: who may call which route, how often, and what happens to malformed ones.

mod body_memory;
mod dns;
mod rude_clients;
mod rude_requests;
mod s5_matrix;
mod s8_limits;
