//! The operator at the command line: the program itself, run on a service's database.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::{DOMAIN, MailServers, Service};

/// The program, built beside this test's own binary.
pub fn program() -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    let profile = binary.ancestors().find(|p| p.join("deps").is_dir());
    profile.unwrap().join("latchmail-program")
}

/// What the program said, and how it ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// The exit status.
    pub status: i32,
    /// The standard output.
    pub out: String,
    /// The standard error.
    pub err: String,
}

impl Said {
    /// Runs the program, with this on its standard input.
    pub async fn by(command: &mut Command, input: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // It may end without having read.
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .await;
        let output = child.wait_with_output().await.unwrap();
        Self {
            status: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What it said of a success.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// Whether it failed with one sentence that mentions something.
    #[track_caller]
    pub fn fails_about(&self, mention: &str) {
        let sentence = self.err.starts_with("latchmail: ") && self.err.lines().count() == 1;
        assert!(
            self.status == 1 && self.out.is_empty() && sentence && self.err.contains(mention),
            "{self:?}: expected a failure about {mention:?}"
        );
    }
}

impl Service {
    /// Runs a verb of the operator's on this service's database: `service.operator("account list", "")`.
    pub async fn operator(&self, verb: &str, input: &str) -> Said {
        let arguments: Vec<&str> = verb.split(' ').collect();
        self.operator_with(&arguments, input).await
    }

    /// The same with arguments that have blanks in them.
    pub async fn operator_with(&self, arguments: &[&str], input: &str) -> Said {
        let mut command = Command::new(program());
        command.env_clear().args(arguments);
        command.arg("--config").arg(self.operator_config());
        Said::by(&mut command, input).await
    }

    /// The configuration that the operator's verbs are given.
    pub fn operator_config(&self) -> PathBuf {
        let file = self.state.join("operator.toml");
        let database = self.database();
        let text = format!(
            "key_file = '{key}'
admin.socket = '{socket}'
database.url = '{url}'
database.mailserver = '{mailserver}'
database.milter = '{milter}'
dkim.milter = {with_milter}
registration.domains = ['{DOMAIN}', 'second.test']
plans.pro.custom_domains = 50
plans.none.custom_domains = 0
dns.server = '{dns}'
{doveadm}
",
            key = self.state.join("latchmail.key").display(),
            socket = self.state.join("admin.sock").display(),
            url = database.url,
            mailserver = database.mailserver.display(),
            milter = database.milter.display(),
            with_milter = database.with_milter,
            dns = self.dns_server(),
            doveadm = self
                .has_mail()
                .map_or_else(String::new, MailServers::doveadm_settings),
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}
