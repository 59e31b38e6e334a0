//! The private folder of the local servers. This module checks the folder's path. This module also
//! creates the subfolders and files of the daemons, with the required owners and modes.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{
    MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::pinned::Pinned;
use anyhow::{Context as _, bail};

/// The maximum length of the folder's path, in bytes. The path of a UNIX socket can have at most
/// 107 bytes. The longest socket path in the folder is `/run-xxxxxx/token-login/imap-urlauth`.
const MAX_PATH_LENGTH: usize = 70;

/// The user that owns the mail. This system user exists on every Debian and Ubuntu system.
pub(crate) const MAIL_USER: &str = "mail";

/// The group that can read the database of the mail servers. Postfix runs with this group. The
/// configuration adds Dovecot's process `auth-worker` to the group.
pub(crate) const LOOKUP_GROUP: &str = "postfix";

/// The subfolders of Postfix's queue folder that only Postfix can read.
const PRIVATE_QUEUES: [&str; 11] = [
    "active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private",
    "saved", "trace",
];

/// The paths in the private folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) dovecot: PathBuf,
    /// The file with the API key of doveadm. The service uses the key to end open Dovecot sessions
    /// (see `imap.doveadm_key_file`).
    pub(crate) doveadm_key: PathBuf,
    /// The file with the URL to which Dovecot sends notices about changes (see `events.url_file`).
    pub(crate) notices_url: PathBuf,
    pub(crate) postfix: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) queue: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) mail: PathBuf,
    pub(crate) sink: PathBuf,
    pub(crate) log: PathBuf,
    /// The id of the group of Postfix's daemons.
    pub(crate) postfix_group: u32,
}

/// Checks whether the local servers can use `folder`. Does not create any file.
///
/// # Errors
/// Returns a text with the reason if the folder cannot be used.
pub fn check_folder(folder: &Path) -> Result<(), String> {
    let text = folder.to_string_lossy();
    if !folder.is_absolute() {
        return Err(format!("{text} is not an absolute path"));
    }
    if text.len() > MAX_PATH_LENGTH {
        return Err(format!(
            "{text} is too long for a folder with sockets: it has {} bytes, and the limit is {MAX_PATH_LENGTH}",
            text.len()
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if !text.chars().all(plain) {
        return Err(format!(
            "{text} has characters that are not allowed in the mail servers' configuration; use letters, digits and /._-+@"
        ));
    }
    // The daemons drop root privileges. Without root privileges, a daemon can enter only folders
    // that are open to all users.
    let closed = folder.ancestors().skip(1).find(|ancestor| {
        fs::metadata(ancestor).is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    });
    match closed {
        Some(closed) => Err(format!(
            "the mail servers' processes, which do not run as root, cannot enter {}; allow it with chmod o+x",
            closed.display()
        )),
        None => Ok(()),
    }
}

impl Layout {
    /// Creates the missing subfolders. The name of the folder for sockets contains `instance`.
    /// Without a unique name, a daemon of an earlier start that is still ending could remove the
    /// new sockets.
    pub(crate) fn create(folder: &Path, instance: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let root = folder
            .canonicalize()
            .with_context(|| format!("cannot resolve {}", folder.display()))?;
        check_folder(&root).map_err(anyhow::Error::msg)?;
        fs::set_permissions(&root, Permissions::from_mode(0o711))?;
        remove_old_sockets(&root)?;
        let mut layout = Self {
            dovecot: root.join("dovecot"),
            doveadm_key: root.join("dovecot/doveadm.key"),
            notices_url: root.join("dovecot/notices.url"),
            postfix: root.join("postfix"),
            run: root.join(format!("run-{instance}")),
            queue: root.join("queue"),
            data: root.join("data"),
            mail: root.join("mail"),
            sink: root.join("sink"),
            log: root.join("log"),
            postfix_group: 0,
            root,
        };
        let Self {
            queue,
            log,
            data,
            mail,
            sink,
            ..
        } = &layout;
        let open = [
            &layout.dovecot,
            &layout.postfix,
            &layout.run,
            log,
            queue,
            &queue.join("pid"),
        ];
        create_folders("root", "root", "0755", &open)?;
        create_folders(MAIL_USER, MAIL_USER, "0700", &[mail, sink])?;
        // Set the same owners as `postfix set-permissions`. Postfix's master exits without an error
        // message if another user owns queue/private.
        let private = PRIVATE_QUEUES.map(|name| queue.join(name));
        create_folders("postfix", "root", "0700", &private)?;
        create_folders("postfix", "postfix", "0700", &[data])?;
        create_folders("postfix", "postdrop", "0730", &[queue.join("maildrop")])?;
        create_folders("postfix", "postdrop", "0710", &[queue.join("public")])?;
        layout.postfix_group = fs::metadata(&layout.data)?.gid();
        Ok(layout)
    }

    /// Writes a configuration file that only root and Postfix's daemons can read. The file can
    /// contain a database password.
    pub(crate) fn write(&self, path: &Path, text: &str) -> anyhow::Result<()> {
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o640)
                .open(path)?;
            fchown(&file, None, Some(self.postfix_group))?;
            file.write_all(text.as_bytes())?;
            // Set an old modification time. After a recent change of a file, each Postfix program
            // reads the file again every 0.3 s for some time.
            file.set_modified(SystemTime::now() - Duration::from_mins(1))
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn remove_sockets(&self) {
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Gives the mail servers access to the SQLite database `file`, and write access to its folder. In
/// WAL mode, a reader of a database must be able to write to the folder. Creates an empty file if
/// `file` does not exist. The service creates the tables.
///
/// A compromised mail server could replace the file with a link. Therefore this function does not
/// follow links. The function changes the group and the mode only of a regular file.
pub(crate) fn share_lookup_file(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file
        .parent()
        .with_context(|| format!("{} has no parent folder", file.display()))?;
    create_folders("root", LOOKUP_GROUP, "2750", &[folder])?;
    create_empty(file).with_context(|| format!("cannot create {}", file.display()))?;
    let group = fs::metadata(folder)?.gid();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        share_with_group(&path, group).with_context(|| {
            format!("cannot give the mail servers access to {}", path.display())
        })?;
    }
    let file = file.canonicalize()?;
    // All users must be able to enter the parent folders. Only the group can enter the folder of
    // the file.
    if let Some(Err(reason)) = file.parent().map(check_folder) {
        bail!("the mail servers cannot read {}: {reason}", file.display());
    }
    Ok(file)
}

/// Creates an empty file. Does not change an existing file or link.
fn create_empty(file: &Path) -> io::Result<()> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o660)
        .open(file);
    match created {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Lets `group` read and write a regular file. Does nothing if the path does not exist.
fn share_with_group(path: &Path, group: u32) -> io::Result<()> {
    let opened = match Pinned::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    if !opened.metadata().is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    chown(opened.path(), None, Some(group))?;
    fs::set_permissions(opened.path(), Permissions::from_mode(0o660))
}

/// Creates folders with `install -d`, because this command resolves user and group names with all
/// configured name services.
fn create_folders(
    user: &str,
    group: &str,
    mode: &str,
    folders: &[impl AsRef<OsStr>],
) -> anyhow::Result<()> {
    let output = Command::new("install")
        .args(["-d", "-o", user, "-g", group, "-m", mode, "--"])
        .args(folders)
        .output()
        .context("cannot run `install`")?;
    if !output.status.success() {
        bail!(
            "cannot create the folders of the mail servers: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn remove_old_sockets(root: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("run-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_that_is_too_long_for_sockets_is_rejected_with_the_reason() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(MAX_PATH_LENGTH)));
        assert!(check_folder(&long).unwrap_err().contains("too long"));
        assert!(
            check_folder(Path::new("/tmp/with space"))
                .unwrap_err()
                .contains("characters")
        );
        assert!(
            check_folder(Path::new("relative"))
                .unwrap_err()
                .contains("absolute")
        );
        assert_eq!(check_folder(Path::new("/tmp/servers")), Ok(()));
    }

    #[test]
    fn a_folder_in_a_closed_folder_is_rejected_with_the_name_of_the_closed_one() {
        let closed = std::env::temp_dir().join(format!("lm-closed-{}", std::process::id()));
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let reason = check_folder(&closed.join("servers")).unwrap_err();
        fs::remove_dir(&closed).unwrap();
        assert!(reason.contains(closed.to_str().unwrap()), "{reason}");
    }

    /// Files that a compromised mail daemon could leave in the folder.
    #[test]
    fn a_planted_file_gives_no_access_to_another_file() {
        let root = std::env::temp_dir().join(format!("lm-planted-{}", std::process::id()));
        let folder = root.join("mailserver");
        let secret = root.join("secret");
        let secret_is_closed = || {
            let found = fs::metadata(&secret).unwrap();
            assert_eq!((found.mode() & 0o777, found.gid()), (0o600, 0));
        };
        fs::create_dir_all(&folder).unwrap();
        fs::write(&secret, "a secret").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let file = folder.join("mailserver.db");
        for suffix in ["", "-wal", "-shm"] {
            let planted = folder.join(format!("mailserver.db{suffix}"));
            let planted_files: [(&str, &dyn Fn()); 4] = [
                ("regular", &|| symlink(&secret, &planted).unwrap()),
                ("another hard link", &|| {
                    fs::hard_link(&secret, &planted).unwrap();
                }),
                ("regular", &|| fs::create_dir(&planted).unwrap()),
                ("regular", &|| {
                    let status = Command::new("mkfifo").arg(&planted).status();
                    assert!(status.unwrap().success());
                }),
            ];
            for (reason, plant) in planted_files {
                let _ = fs::remove_file(&planted);
                plant();
                let refused = format!("{:#}", share_lookup_file(&file).unwrap_err());
                assert!(refused.contains(reason), "{suffix}: {refused}");
                secret_is_closed();
                let _ = fs::remove_dir(&planted);
            }
            fs::remove_file(&planted).unwrap();
        }
        fs::remove_file(&file).unwrap();
        symlink(root.join("target"), &file).unwrap();
        share_lookup_file(&file).unwrap_err();
        assert!(!root.join("target").exists(), "the link was followed");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_lookup_file_and_its_log_get_the_group_of_the_folder() {
        let root = std::env::temp_dir().join(format!("lm-group-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let file = root.join("mailserver").join("mailserver.db");
        share_lookup_file(&file).unwrap();
        let log = root.join("mailserver").join("mailserver.db-wal");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o600)).unwrap();
        chown(&log, None, Some(0)).unwrap();
        share_lookup_file(&file).unwrap();
        let group = fs::metadata(file.parent().unwrap()).unwrap().gid();
        assert_ne!(group, 0);
        for path in [&file, &log] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.mode() & 0o777, found.gid()), (0o660, group));
        }
        fs::remove_dir_all(root).unwrap();
    }
}
