//! The service's keys: their states, the values that they seal, and the key of authentication
//! results.

pub mod results_key;
pub mod sealed;
pub mod service_keys;

use crate::db::Db;
use crate::hosts::Hosts;

/// The service's keys, and the values that they seal.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(crate) db: Db,
    pub(crate) hosts: Hosts,
}
