//! Users of the mail server: a Dovecot with users of its own, as an operator has before Latchmail
//! is added.
//!
//! The users are in a passwd-file. A deny list disables users, and a master user can log in as
//! every user. Latchmail's passdb for app passwords returns neither a user name nor fields for the
//! userdb, and comes after the operator's passdbs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchmail_mailserver::{DovecotVersion, LocalServers};

/// The password of the master user `master`.
pub const MASTER_PASSWORD: &str = "Master-Pass-1";

/// The users of a mail server.
#[derive(Debug)]
pub struct MailUsers {
    folder: PathBuf,
    run: String,
    users: Mutex<BTreeMap<String, String>>,
}

impl MailUsers {
    /// Gives the mail server users of its own. With `bare`, the mail server removes the domain from
    /// every name.
    pub(crate) async fn configure(stack: &mut LocalServers, folder: &Path, bare: bool) -> Self {
        let dovecot = folder.join("dovecot");
        let local = fs::read_to_string(dovecot.join("local.conf")).unwrap();
        let run = local
            .lines()
            .find_map(|line| line.strip_prefix("base_dir = "));
        let users = Self {
            run: run.unwrap().to_owned(),
            folder: dovecot,
            users: Mutex::default(),
        };
        users.write("users", "");
        users.write("denied", "");
        users.write("masters", &format!("master:{{PLAIN}}{MASTER_PASSWORD}\n"));
        let file = users.folder.join("dovecot.conf");
        let text = fs::read_to_string(&file).unwrap();
        let home = folder.join("mail");
        let text = match DovecotVersion::installed().unwrap() {
            DovecotVersion::V2_3 => users.version_2_3(&text, bare, &home),
            DovecotVersion::V2_4 => users.version_2_4(&text, bare, &home),
        };
        fs::write(&file, text).unwrap();
        stack.restart_imap().await.unwrap();
        users
    }

    /// Returns the service's settings for these users.
    pub(crate) fn settings(&self) -> String {
        format!(
            "sign_in.source = 'mailserver'\nsign_in.mailserver.auth_socket = '{run}/latchmail-auth'\n\
             sign_in.mailserver.lookup_socket = '{run}/latchmail-master'\nsign_in.mailserver.recheck = 0.3\n\
             imap.session_names = 'user'\n",
            run = self.run
        )
    }

    fn version_2_3(&self, text: &str, bare: bool, home: &Path) -> String {
        let format = if bare { "%Ln" } else { "%Lu" };
        let lookup = self.folder.join("lookup.conf.ext");
        let template = fs::read_to_string(&lookup).unwrap();
        let is_connection =
            |line: &&str| line.starts_with("driver = ") || line.starts_with("connect = ");
        let connection: Vec<&str> = template.lines().filter(is_connection).collect();
        let mut query = connection.join("\n");
        // `orig_user` is the name before `auth_username_format`.
        query.push_str(
            "\npassword_query = SELECT password FROM mailserver_passwords \
             WHERE address = '%L{orig_user}' AND selector = substr('%w', 1, 8) \
             AND (kind <> 'index' OR '%s' = 'imap')\n",
        );
        fs::write(&lookup, query).unwrap();
        let config = self.folder.display();
        let own = format!(
            "auth_username_format = {format}
auth_master_user_separator = *
passdb {{
  driver = passwd-file
  args = {config}/denied
  deny = yes
}}
passdb {{
  driver = passwd-file
  args = {config}/masters
  master = yes
  result_success = continue
}}
passdb {{
  driver = passwd-file
  args = {config}/users
}}
passdb {{
  driver = sql
  args = {config}/lookup.conf.ext
}}
userdb {{
  driver = passwd-file
  args = {config}/users
}}
mail_home = {home}/%u
{SOCKETS}",
            home = home.display()
        );
        replaced(text, "auth_username_format", "mail_location", &own)
    }

    fn version_2_4(&self, text: &str, bare: bool, home: &Path) -> String {
        let format = if bare {
            "%{user | username | lower}"
        } else {
            "%{user | lower}"
        };
        let config = self.folder.display();
        let own = format!(
            "auth_username_format = {format}
auth_master_user_separator = *
passdb denied {{
  driver = passwd-file
  passwd_file_path = {config}/denied
  deny = yes
}}
passdb masters {{
  driver = passwd-file
  passwd_file_path = {config}/masters
  master = yes
  result_success = continue
}}
passdb users {{
  driver = passwd-file
  passwd_file_path = {config}/users
}}
passdb sql {{
  query = SELECT password FROM mailserver_passwords \
    WHERE address = '%{{original_user | lower}}' AND selector = substr('%{{password}}', 1, 8) \
    AND (kind <> 'index' OR '%{{protocol}}' = 'imap')
}}
userdb users {{
  driver = passwd-file
  passwd_file_path = {config}/users
}}
mail_home = {home}/%{{user}}
{SOCKETS}",
            home = home.display()
        );
        replaced(text, "auth_username_format", "mail_driver", &own)
    }

    /// Waits until the mail server uses the latest changes. Dovecot checks its files at most once
    /// in each second of the clock.
    pub async fn applied(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let next = Duration::from_secs(now.as_secs() + 1) + Duration::from_millis(20);
        tokio::time::sleep(next.saturating_sub(now)).await;
    }

    /// Adds a user, or changes the password of a user. Dovecot may notice the change a second
    /// later.
    pub fn set(&self, name: &str, password: &str) {
        self.set_with(
            name,
            password,
            &format!("latchmail_password_version={password}"),
        );
    }

    /// Adds a user with these additional fields.
    pub fn set_with(&self, name: &str, password: &str, fields: &str) {
        let line = format!("{name}:{{PLAIN}}{password}::::::{fields}\n");
        let mut users = self.users.lock().unwrap();
        users.insert(name.to_owned(), line);
        self.store(&users);
    }

    /// Removes a user.
    pub fn remove(&self, name: &str) {
        let mut users = self.users.lock().unwrap();
        users.remove(name).unwrap();
        self.store(&users);
    }

    /// Disables these users and enables all others.
    pub fn deny(&self, names: &[&str]) {
        let lines: Vec<String> = names.iter().map(|name| format!("{name}:x")).collect();
        self.write("denied", &lines.join("\n"));
    }

    fn store(&self, users: &BTreeMap<String, String>) {
        self.write("users", &users.values().cloned().collect::<String>());
    }

    /// Replaces a file in one step. Dovecot notices a change by the time and the size of the file.
    fn write(&self, name: &str, text: &str) {
        let new = self.folder.join(format!("{name}.new"));
        fs::write(&new, text).unwrap();
        fs::rename(new, self.folder.join(name)).unwrap();
    }
}

/// The sockets for the service. The service runs as root in tests.
const SOCKETS: &str = "service auth {
  unix_listener latchmail-auth {
    mode = 0600
  }
  unix_listener latchmail-master {
    mode = 0600
  }
}
";

/// Replaces the lines from the one that starts with `from` to the one before the line that starts
/// with `to`.
fn replaced(text: &str, from: &str, to: &str, with: &str) -> String {
    let start = text.find(&format!("\n{from}")).unwrap() + 1;
    let end = text.find(&format!("\n{to}")).unwrap() + 1;
    format!("{}{with}{}", &text[..start], &text[end..])
}
