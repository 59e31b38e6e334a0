//! The user that runs the service, and the access of this user to files.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use latchmail_core::config::Config;
use rustix::fs::Access;
use rustix::process::geteuid;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::time::timeout;

use super::TIMEOUT;
use super::programs::output;

/// The user that runs the service.
#[derive(Clone, Debug)]
pub(super) struct ServiceUser {
    pub(super) id: u32,
    /// The groups of the user. Empty if the user is the current user, or if the system does not
    /// know the user.
    groups: Vec<u32>,
}

/// Returns the process of the running service and its user. Returns `None` if the service is
/// stopped or has no socket, or if the current user must not use the socket.
pub(crate) async fn find_running(config: &Config) -> Option<UCred> {
    let connecting = UnixStream::connect(&config.admin.socket);
    let stream = timeout(TIMEOUT, connecting).await.ok()?.ok()?;
    stream.peer_cred().ok()
}

impl ServiceUser {
    /// Returns the current user. Root can check the service of another user: if the current user is
    /// root, returns the user of the running service, or the owner of the key file if the service
    /// is stopped.
    pub(super) async fn find(config: &Config, running: Option<UCred>) -> Self {
        let current = geteuid();
        let mut id = current.as_raw();
        let mut groups = Vec::new();
        if current.is_root() {
            let key_file = config.key_file.metadata();
            let owner = key_file.map_or(id, |metadata| metadata.uid());
            id = running.map_or(owner, |process| process.uid());
            let names = output("id", &["-G", &id.to_string()]).await;
            let names = names.unwrap_or_default();
            groups.extend(names.split_whitespace().flat_map(str::parse::<u32>));
        }
        Self { id, groups }
    }

    /// Returns `true` if the user has this access to a file or folder.
    ///
    /// # Errors
    /// Returns an error if the current user cannot find the file.
    pub(super) fn has_access(&self, file: &Path, access: Access) -> io::Result<bool> {
        let metadata = file.metadata()?;
        if self.id == geteuid().as_raw() {
            return Ok(rustix::fs::access(file, access).is_ok());
        }
        Ok(self.permits(&metadata, access))
    }

    /// Returns `true` if the mode of a file gives the user this access. Does not check the folders
    /// above the file.
    fn permits(&self, metadata: &Metadata, access: Access) -> bool {
        let shift = if metadata.uid() == self.id {
            6
        } else if self.groups.contains(&metadata.gid()) {
            3
        } else {
            0
        };
        (metadata.mode() >> shift) & access.bits() == access.bits()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir, remove_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_mode_of_the_class_of_the_user_decides() {
        let folder = std::env::temp_dir().join(format!("lm-doctor-{}", std::process::id()));
        create_dir(&folder).unwrap();
        set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
        let metadata = folder.metadata().unwrap();
        let other = metadata.uid() + 1;
        let (write, read) = (Access::WRITE_OK | Access::EXEC_OK, Access::READ_OK);
        for (id, groups, can_read, can_write) in [
            (metadata.uid(), vec![], true, true),
            (other, vec![metadata.gid()], true, false),
            (other, vec![metadata.gid() + 1], false, false),
        ] {
            let user = ServiceUser { id, groups };
            assert_eq!(user.permits(&metadata, read), can_read, "{user:?}");
            assert_eq!(user.permits(&metadata, write), can_write, "{user:?}");
        }
        remove_dir(&folder).unwrap();
    }
}
