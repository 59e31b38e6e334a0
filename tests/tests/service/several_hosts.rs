//! Several hosts behind a balancer, which share a database and the mail servers.

mod caps;
mod endings;
mod limits;
mod long;
mod scheduled;
mod shared_state;
