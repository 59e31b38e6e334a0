//! The private folder of a stack: checks the folder and creates the subfolders and files that the daemons expect, with the required owners and modes.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The maximum length of the folder's path. The path of a UNIX socket has at most 107 bytes, and the longest one in the folder is
/// `/run-xxxxxx/token-login/imap-urlauth`.
const LONGEST: usize = 70;

/// The owner of the mail on a development machine: a system user that exists on every Debian and Ubuntu.
pub(crate) const MAIL_USER: &str = "mail";

/// The group that can read the look-ups on a development machine: Postfix's own group. Dovecot's `auth-worker` is a member, too.
pub(crate) const LOOKUP_GROUP: &str = "postfix";

const PRIVATE_QUEUES: [&str; 11] = [
    "active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private",
    "saved", "trace",
];

/// The paths in a stack's folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) dovecot: PathBuf,
    /// The key for ending sessions with Dovecot (see `[imap] doveadm`).
    pub(crate) doveadm_key: PathBuf,
    pub(crate) postfix: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) queue: PathBuf,
    pub(crate) data: PathBuf,
    pub(crate) mail: PathBuf,
    pub(crate) sink: PathBuf,
    pub(crate) log: PathBuf,
    /// Returns the number of the group of Postfix's daemons.
    pub(crate) postfix_group: u32,
}

/// Returns why `folder` cannot be used for a stack, or `None` if it can.
#[must_use]
pub fn unsuitable(folder: &Path) -> Option<String> {
    let text = folder.to_string_lossy();
    if !folder.is_absolute() {
        return Some(format!("{text} is not an absolute path"));
    }
    if text.len() > LONGEST {
        return Some(format!(
            "{text} is too long for the sockets below it: {} bytes, where {LONGEST} can be",
            text.len()
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if !text.chars().all(plain) {
        return Some(format!(
            "{text} has characters that cannot stand in the mail servers' configuration"
        ));
    }
    // The daemons drop root privileges and can then only enter folders that are open to all users.
    let closed = folder.ancestors().skip(1).find(|ancestor| {
        fs::metadata(ancestor).is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    });
    closed.map(|closed| {
        format!(
            "the mail servers' processes, which do not run as root, cannot pass through {}",
            closed.display()
        )
    })
}

impl Layout {
    /// Creates the missing parts of a stack's folder. `instance` names the folder of its sockets, so that an earlier stack that is still ending cannot remove
    /// them.
    pub(crate) fn make(folder: &Path, instance: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let root = folder
            .canonicalize()
            .with_context(|| format!("cannot find {}", folder.display()))?;
        if let Some(reason) = unsuitable(&root) {
            bail!("{reason}");
        }
        fs::set_permissions(&root, Permissions::from_mode(0o711))?;
        remove_stale_runs(&root)?;
        let mut layout = Self {
            dovecot: root.join("dovecot"),
            doveadm_key: root.join("dovecot/doveadm.key"),
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
        install("root", "root", "0755", &open)?;
        install(MAIL_USER, MAIL_USER, "0700", &[mail, sink])?;
        // The owners that `postfix set-permissions` sets. If another user owns queue/private, the master ends without a message.
        let private = PRIVATE_QUEUES.map(|name| queue.join(name));
        install("postfix", "root", "0700", &private)?;
        install("postfix", "postfix", "0700", &[data])?;
        install("postfix", "postdrop", "0730", &[queue.join("maildrop")])?;
        install("postfix", "postdrop", "0710", &[queue.join("public")])?;
        layout.postfix_group = fs::metadata(&layout.data)?.gid();
        Ok(layout)
    }

    /// Writes a configuration file that only root and Postfix's daemons can read, because a look-up may contain a password.
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
            // If a file was changed very recently, each Postfix program reads the file repeatedly, 0.3 s apart, until it is sure that the file is no longer
            // being written.
            file.set_modified(SystemTime::now() - Duration::from_mins(1))
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the sockets.
    pub(crate) fn remove_run(&self) {
        let _ = fs::remove_dir_all(&self.run);
    }
}

/// Lets the mail servers read an SQLite look-up file and its folder. A reader of a write-ahead log must be able to write in the folder. An empty file is an
/// empty database, in which the directory creates the tables.
///
/// The mail servers can write in the folder and could replace the file. Therefore links are not followed, and the group and mode of the file change only if it
/// is a regular file.
pub(crate) fn open_lookup_to_mail(file: &Path) -> anyhow::Result<PathBuf> {
    let folder = file
        .parent()
        .with_context(|| format!("{} is in no folder", file.display()))?;
    install("root", LOOKUP_GROUP, "2750", &[folder])?;
    make_empty(file).with_context(|| format!("cannot make {}", file.display()))?;
    let group = fs::metadata(folder)?.gid();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        give_to_group(&path, group)
            .with_context(|| format!("cannot open {} to the mail servers", path.display()))?;
    }
    let file = file.canonicalize()?;
    // Only the group can enter the folder itself, but all users must be able to enter its parent folders.
    match file.parent().and_then(unsuitable) {
        Some(reason) => bail!("the look-ups cannot be read there: {reason}"),
        None => Ok(file),
    }
}

/// Creates an empty file. An existing file or link is not changed.
fn make_empty(file: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o660)
        .open(file);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a regular file to `group`. Does nothing if the file does not exist.
fn give_to_group(path: &Path, group: u32) -> anyhow::Result<()> {
    // O_PATH does not follow a link and does not wait for the other end of a pipe. Closing such a handle does not release the locks that SQLite may hold on the
    // file in this process (fcntl(2), "Advisory record locking").
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(handle) => fs::File::from(handle),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let found = handle.metadata()?;
    if !found.is_file() {
        bail!("it is not a plain file");
    }
    if found.nlink() != 1 {
        bail!("it has another name too");
    }
    // Refers to the file of the handle, even if the name now belongs to another file (proc(5), "/proc/pid/fd"). fchown and fchmod do not accept an O_PATH
    // handle.
    let held = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    chown(&held, None, Some(group))?;
    fs::set_permissions(&held, Permissions::from_mode(0o660))?;
    Ok(())
}

/// Runs `install -d`, which resolves users and groups from all name services.
fn install(
    user: &str,
    group: &str,
    mode: &str,
    folders: &[impl AsRef<OsStr>],
) -> anyhow::Result<()> {
    let installed = Command::new("install")
        .args(["-d", "-o", user, "-g", group, "-m", mode, "--"])
        .args(folders)
        .output()
        .context("cannot run install")?;
    if !installed.status.success() {
        bail!(
            "cannot create the folders of the mail servers: {}",
            String::from_utf8_lossy(&installed.stderr).trim()
        );
    }
    Ok(())
}

fn remove_stale_runs(root: &Path) -> anyhow::Result<()> {
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
    fn a_folder_too_long_for_sockets_is_refused_with_the_reason() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(LONGEST)));
        assert!(unsuitable(&long).unwrap().contains("too long"));
        assert!(
            unsuitable(Path::new("/tmp/with space"))
                .unwrap()
                .contains("characters")
        );
        assert!(
            unsuitable(Path::new("relative"))
                .unwrap()
                .contains("absolute")
        );
        assert_eq!(unsuitable(Path::new("/tmp/stack")), None);
    }

    #[test]
    fn a_folder_below_a_closed_one_is_refused_with_its_name() {
        let closed = std::env::temp_dir().join(format!("lm-closed-{}", std::process::id()));
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let reason = unsuitable(&closed.join("stack")).unwrap();
        fs::remove_dir(&closed).unwrap();
        assert!(reason.contains(closed.to_str().unwrap()), "{reason}");
    }

    /// Files that a compromised mail daemon could leave in the folder.
    #[test]
    fn a_planted_name_opens_no_file_of_anybody_else() {
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
            let plants: [(&str, &dyn Fn()); 4] = [
                ("plain", &|| symlink(&secret, &planted).unwrap()),
                ("another name", &|| {
                    fs::hard_link(&secret, &planted).unwrap();
                }),
                ("plain", &|| fs::create_dir(&planted).unwrap()),
                ("plain", &|| {
                    let made = Command::new("mkfifo").arg(&planted).status();
                    assert!(made.unwrap().success());
                }),
            ];
            for (reason, plant) in plants {
                let _ = fs::remove_file(&planted);
                plant();
                let refused = format!("{:#}", open_lookup_to_mail(&file).unwrap_err());
                assert!(refused.contains(reason), "{suffix}: {refused}");
                secret_is_closed();
                let _ = fs::remove_dir(&planted);
            }
            fs::remove_file(&planted).unwrap();
        }
        fs::remove_file(&file).unwrap();
        symlink(root.join("made"), &file).unwrap();
        open_lookup_to_mail(&file).unwrap_err();
        assert!(!root.join("made").exists(), "nothing is made elsewhere");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_look_up_file_belongs_to_the_folder_s_group_with_its_log() {
        let root = std::env::temp_dir().join(format!("lm-group-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let file = root.join("mailserver").join("mailserver.db");
        open_lookup_to_mail(&file).unwrap();
        let log = root.join("mailserver").join("mailserver.db-wal");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o600)).unwrap();
        chown(&log, None, Some(0)).unwrap();
        open_lookup_to_mail(&file).unwrap();
        let group = fs::metadata(file.parent().unwrap()).unwrap().gid();
        assert_ne!(group, 0);
        for path in [&file, &log] {
            let found = fs::metadata(path).unwrap();
            assert_eq!((found.mode() & 0o777, found.gid()), (0o660, group));
        }
        fs::remove_dir_all(root).unwrap();
    }
}
