//! The API description: what it says of every operation, and clients that are generated from it.

mod clients;
mod schemas;
