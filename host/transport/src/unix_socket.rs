//! Creates and removes the file of a Unix socket.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The file of a Unix socket that this process created.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The device and the inode of the file.
    id: (u64, u64),
}

/// Creates a socket with the permissions `mode`. Removes the old socket file of a killed service.
///
/// Another user's process can connect before the permissions are set if the umask of this process
/// permits it.
///
/// # Errors
/// Returns the reason if the path exists and is not a socket, or if another service uses the
/// socket.
pub(crate) async fn bind(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), String> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err("the path exists and is not a socket".into());
        }
        Ok(_) => {
            if UnixStream::connect(path).await.is_ok() {
                return Err("another service uses the socket".into());
            }
            std::fs::remove_file(path).map_err(reason)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(reason(error)),
    }
    let listener = UnixListener::bind(path).map_err(reason)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(reason)?;
    let file = SocketFile {
        path: path.to_owned(),
        id: id(path).map_err(reason)?,
    };
    Ok((listener, file))
}

/// Checks that not every local user can connect to a socket of another process. A process that can
/// connect is a trusted proxy.
///
/// # Errors
/// Returns the reason if the socket has no file, or if other users can write to the file.
pub(crate) fn check_permissions(path: &Path) -> Result<(), String> {
    if path.as_os_str().is_empty() {
        return Err(
            "an abstract Unix socket has no permissions, so every local user can connect \
             to it and is a trusted proxy: use a path"
                .into(),
        );
    }
    let metadata = std::fs::metadata(path)
        .map_err(|error| format!("cannot read the permissions of {}: {error}", path.display()))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o002 != 0 {
        return Err(format!(
            "{} has mode {mode:04o}, so every local user can connect to it and is a trusted proxy: \
             set `SocketMode=0660`, and `SocketGroup=` to a group of the proxy",
            path.display()
        ));
    }
    Ok(())
}

impl SocketFile {
    /// Removes the file, unless another process has replaced the file.
    pub(crate) fn remove(self) {
        let removed = id(&self.path).and_then(|id| {
            if id == self.id {
                std::fs::remove_file(&self.path)
            } else {
                Ok(())
            }
        });
        if let Err(error) = removed {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove the file of a Unix socket");
        }
    }
}

/// Returns the device and the inode of a file.
fn id(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn reason(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_every_local_user_can_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let check = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            check_permissions(&path)
        };
        for mode in [0o600, 0o660, 0o755] {
            assert_eq!(check(mode), Ok(()), "{mode:o}");
        }
        for mode in [0o666, 0o662, 0o777] {
            let error = check(mode).unwrap_err();
            assert!(error.contains("SocketMode=0660"), "{error}");
        }
        assert!(check_permissions(Path::new("")).is_err());
        assert!(check_permissions(&folder.path().join("missing")).is_err());
    }
}
