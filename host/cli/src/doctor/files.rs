//! Checks the configuration file, the key files and the folders of the service. Does not check the
//! contents of the database.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use latchmail_core::config::Config;
use latchmail_core::key_file;
use latchmail_directory::sqlite_files;
use rustix::fs::Access;

use super::finding::Finding;
use super::user::ServiceUser;

const PERMISSIONS: &str = "permissions";

/// The mode bits that allow the group and other users to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Reports the path of the configuration file, whether other users can write to it, and the files
/// that the service cannot read.
pub(super) fn check_configuration(config: &Config, user: &ServiceUser) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(file) = &config.file {
        findings.push(Finding::ok("configuration", file.display().to_string()));
        if file
            .metadata()
            .is_ok_and(|metadata| metadata.mode() & WRITABLE_BY_OTHERS != 0)
        {
            let file = file.display();
            findings.push(Finding::warning(
                PERMISSIONS,
                format!("other users can write to the configuration {file}"),
                format!("run `chmod go-w {file}`"),
            ));
        }
    }
    let dkim_keys = config.dkim.keys.values().map(|key| &key.key_file);
    let doveadm_key = (!config.imap.doveadm.is_empty()).then_some(&config.imap.doveadm_key_file);
    let tls = [&config.tls.certificate, &config.tls.key];
    let tls = tls.into_iter().filter(|_| config.tls.is_configured());
    let files = config.file.iter().chain(doveadm_key).chain(dkim_keys);
    let files = files.chain(tls);
    findings.extend(files.filter_map(|file| check_readable(file, user)));
    findings
}

/// Returns a finding if the service cannot read a file. Ignores a missing file, because the check
/// that reads the file reports this problem.
fn check_readable(file: &Path, user: &ServiceUser) -> Option<Finding> {
    let is_readable = user.has_access(file, Access::READ_OK).unwrap_or(true);
    (!is_readable).then(|| {
        Finding::failed(
            PERMISSIONS,
            format!("the user {} cannot read {}", user.id, file.display()),
            remedy(user, "make the file readable for this user"),
        )
    })
}

/// Returns the remedy for a missing permission.
fn remedy(user: &ServiceUser, action: &str) -> String {
    format!(
        "if {} is the service's user, {action}; otherwise run this command as the service's user",
        user.id
    )
}

/// Checks the service's key file.
pub(super) fn check_key(config: &Config, user: &ServiceUser) -> Finding {
    let file = &config.key_file;
    if let Err(error) = file.metadata()
        && error.kind() == ErrorKind::NotFound
    {
        return Finding::failed(
            "key",
            format!("the key file {} does not exist", file.display()),
            "start the service, which creates the file at its first start, or restore the file from a backup. A relative `key_file` starts at the current folder",
        );
    }
    match key_file::count(file, user.id) {
        Ok(count) => Finding::ok("key", format!("{} (keys: {count})", file.display())),
        Err(error) => Finding::failed(
            "key",
            error.to_string(),
            "run the command as the service's user or as root, and give the file to this user with mode 0600",
        ),
    }
}

/// Checks that the service can write to its folders.
pub(super) fn check_folders(config: &Config, user: &ServiceUser) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The check of the database reports an invalid `database.url`.
    if let Ok(Some(files)) = sqlite_files(&config.database()) {
        for (name, file) in [
            ("data", &files.main),
            ("mail server data", &files.mailserver),
        ] {
            findings.push(check_folder(name, &folder_of(file), user));
        }
    }
    findings.push(check_cache(&config.cache_dir, user));
    if !config.admin.socket.as_os_str().is_empty() {
        findings.push(check_socket(&folder_of(&config.admin.socket), user));
    }
    findings
}

fn check_folder(name: &str, folder: &Path, user: &ServiceUser) -> Finding {
    let described = format!("the {name} folder {}", folder.display());
    match user.has_access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(true) => Finding::ok(PERMISSIONS, format!("{described} is writable")),
        Ok(false) => Finding::failed(
            PERMISSIONS,
            format!("{described} is not writable for the user {}", user.id),
            remedy(
                user,
                &format!("run `chown {} {}`", user.id, folder.display()),
            ),
        ),
        Err(error) => Finding::failed(
            PERMISSIONS,
            format!("{described} cannot be used: {error}"),
            "start the service, which creates the folder, or correct the path in the configuration",
        ),
    }
}

/// Checks the folder of compiled modules. The service runs the code in this folder, so no other
/// user must be able to write to the folder. The service creates a missing folder.
fn check_cache(folder: &Path, user: &ServiceUser) -> Finding {
    let Ok(metadata) = folder.metadata() else {
        return match first_existing(folder) {
            Some(parent) => check_folder("parent of the cache", &parent, user),
            None => check_folder("cache", folder, user),
        };
    };
    let is_trusted = [0, user.id].contains(&metadata.uid());
    if !is_trusted || metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        let (id, folder) = (user.id, folder.display());
        return Finding::failed(
            PERMISSIONS,
            format!("another user can write to the cache folder {folder}"),
            remedy(
                user,
                &format!("run `chown {id} {folder}` and `chmod 700 {folder}`"),
            ),
        );
    }
    check_folder("cache", folder, user)
}

/// Checks the folder of the operator's socket. systemd removes the folder `RuntimeDirectory` while
/// the service is stopped, so a missing folder is a warning.
fn check_socket(folder: &Path, user: &ServiceUser) -> Finding {
    if folder.exists() {
        return check_folder("socket", folder, user);
    }
    Finding::warning(
        PERMISSIONS,
        format!("the socket folder {} does not exist", folder.display()),
        "set `RuntimeDirectory=` in the unit, which creates the folder at the start of the service, or create the folder",
    )
}

/// Returns the folder of a file. A relative path starts at the current folder.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the nearest parent of `folder` that exists.
pub(super) fn first_existing(folder: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(folder).ok()?;
    absolute
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .map(Path::to_owned)
}
