//! Specification, section 4.8: what a guest may do in a mailbox that is shared with it, and what it never learns of the rest.

mod connections;
mod ends;
mod follow;
mod matrix;
mod rules;
mod world;
