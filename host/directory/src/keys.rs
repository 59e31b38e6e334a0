//! The service's keys: their states, the values that are encrypted (sealed) with the keys, and the
//! key with which the milter marks authentication results.

pub mod results_key;
pub mod sealed;
pub mod service_keys;

use crate::db::Db;
use crate::hosts::Hosts;

/// The service's keys, and the values that are encrypted with the keys.
#[derive(Clone, Debug)]
pub struct Keys {
    pub(crate) db: Db,
    pub(crate) hosts: Hosts,
}
