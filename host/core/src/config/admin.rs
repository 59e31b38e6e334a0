//! `[admin]`: the operator's page, and changes to modules while the service runs.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::Config;
use super::values::section;
use crate::error::StartError;

/// The file name of the socket if `admin.socket` is not set.
const SOCKET: &str = "admin.sock";

/// The folder for sockets of an installed service.
const RUNTIME_FOLDER: &str = "/run/latchmail";

section! {
    /// The section `[admin]` of the configuration.
    pub struct Admin {
        /// The address and port of the operator's page. The address must be a loopback address
        /// unless TLS is configured. If `None`, there is no such page.
        pub listen: Option<SocketAddr>,
        /// The path of the Unix socket for `latchmail module …`. Only the owner of the socket can
        /// connect. If empty, there is no socket. If the key is not set, [`Config::parse`] sets a
        /// path that does not depend on the working folder.
        pub socket: PathBuf,
        /// Whether the main listener has the routes of module administration, in addition to the
        /// socket.
        pub public_api: bool = true,
        /// The number of previous versions of each module that are stored.
        pub versions: u32 = 10,
    }
}

impl Admin {
    /// Checks that passwords of administrators do not cross a network without encryption.
    pub(super) fn check(&self, config: &Config) -> Result<(), StartError> {
        match self.listen {
            Some(address) if !address.ip().to_canonical().is_loopback() && !config.serves_tls() => {
                Err(StartError::new(format!(
                    "`admin.listen` is {address}, which other machines can reach, and the service does not use TLS: configure `tls` or `acme`, or use a loopback address such as 127.0.0.1:8081"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the default path of the socket. `data` is the folder with the data of the service. The
/// socket is in [`RUNTIME_FOLDER`] if this folder belongs to the owner of `data`, otherwise in
/// `data`. The path does not depend on the user or the working folder of a command, so all commands
/// find the socket.
pub(super) fn default_socket(data: &Path) -> PathBuf {
    default_socket_in(Path::new(RUNTIME_FOLDER), data)
}

fn default_socket_in(runtime: &Path, data: &Path) -> PathBuf {
    // If the folder `data` does not exist, the service creates the folder. Then the current user
    // owns the folder.
    let owner = fs::metadata(data).map_or_else(|_| geteuid().as_raw(), |found| found.uid());
    let is_usable = |found: fs::Metadata| found.is_dir() && found.uid() == owner;
    let folder = if fs::metadata(runtime).is_ok_and(is_usable) {
        runtime
    } else {
        data
    };
    folder.join(SOCKET)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn the_socket_is_in_the_folder_for_sockets_of_the_owner_of_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let (runtime, data) = (folder.path().join("run"), folder.path().join("data"));
        let socket = || default_socket_in(&runtime, &data);
        assert_eq!(socket(), data.join(SOCKET), "no folder exists");
        fs::create_dir(&runtime).unwrap();
        assert_eq!(
            socket(),
            runtime.join(SOCKET),
            "the data does not exist yet"
        );
        fs::create_dir(&data).unwrap();
        assert_eq!(socket(), runtime.join(SOCKET));
        if geteuid().is_root() {
            chown(&data, Some(12_345), None).unwrap();
            assert_eq!(socket(), data.join(SOCKET), "the data of another service");
            chown(&runtime, Some(12_345), None).unwrap();
            assert_eq!(socket(), runtime.join(SOCKET), "root runs a command");
        }
        fs::remove_dir(&runtime).unwrap();
        fs::write(&runtime, "").unwrap();
        assert_eq!(socket(), data.join(SOCKET), "a file");
    }
}
