//! `[admin]`: changes to modules while the service runs.

use std::path::PathBuf;

use serde::Deserialize;

/// `[admin]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The path of the Unix socket for `latchmail module …`. Only the owner of the socket can connect. If empty, there is no socket.
    pub socket: PathBuf,
    /// The number of previous versions of each module that are stored.
    pub versions: u32,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            socket: "latchmail.sock".into(),
            versions: 10,
        }
    }
}
