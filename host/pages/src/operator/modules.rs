//! The pages on which administrators see and change the service's modules.

mod change;
mod charts;
mod list;
mod parts;
mod show;

pub(super) use change::{disable, enable, roll_back, switch};
pub(super) use charts::{data, script};
pub(super) use list::list;
pub(super) use show::show;
