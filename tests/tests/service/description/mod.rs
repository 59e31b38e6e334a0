//! The API description: its statements about every operation, and clients that are generated from it.

mod clients;
mod schemas;
