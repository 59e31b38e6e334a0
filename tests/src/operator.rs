//! Runs the operator's commands on a service's database.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::{DOMAIN, MailServers, Service};

/// Returns the path of the program, which is built beside the test binary.
pub fn program() -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    let profile = binary.ancestors().find(|p| p.join("deps").is_dir());
    profile.unwrap().join("latchmail-program")
}

/// The output and the exit status of the program.
#[derive(Clone, Debug)]
pub struct ProgramOutput {
    /// The exit status.
    pub status: i32,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl ProgramOutput {
    /// Runs the program with this standard input.
    pub async fn of(command: &mut Command, input: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        // The program may end without reading its input.
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .await;
        let output = child.wait_with_output().await.unwrap();
        Self {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts success, and returns the output.
    #[track_caller]
    pub fn succeeds(self) -> String {
        assert_eq!(
            (self.status, self.stderr.as_str()),
            (0, ""),
            "{}",
            self.stdout
        );
        self.stdout
    }

    /// Asserts a failure with one sentence that contains `mention`.
    #[track_caller]
    pub fn fails_mentioning(&self, mention: &str) {
        let sentence = self.stderr.starts_with("latchmail: ") && self.stderr.lines().count() == 1;
        assert!(
            self.status == 1 && self.stdout.is_empty() && sentence && self.stderr.contains(mention),
            "{self:?}: expected a failure about {mention:?}"
        );
    }
}

impl Service {
    /// Runs an operator's command on this service's database:
    /// `service.operator("account list", "")`.
    pub async fn operator(&self, verb: &str, input: &str) -> ProgramOutput {
        let arguments: Vec<&str> = verb.split(' ').collect();
        self.operator_with(&arguments, input).await
    }

    /// Runs an operator's command whose arguments can contain spaces.
    pub async fn operator_with(&self, arguments: &[&str], input: &str) -> ProgramOutput {
        let mut command = Command::new(program());
        command.env_clear().args(arguments);
        command.arg("--config").arg(self.operator_config());
        ProgramOutput::of(&mut command, input).await
    }

    /// Runs a command with the complete configuration of the service, including the addresses of
    /// the mail servers.
    pub async fn operator_with_all_settings(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> ProgramOutput {
        let file = self.state.join("service.toml");
        std::fs::write(&file, &self.settings).unwrap();
        let mut command = Command::new(program());
        command
            .env_clear()
            .envs(environment.iter().copied())
            .args(arguments)
            .arg("--config")
            .arg(file);
        ProgramOutput::of(&mut command, "").await
    }

    /// Writes the configuration file for the operator's commands, and returns its path.
    pub fn operator_config(&self) -> PathBuf {
        let file = self.state.join("operator.toml");
        let database = self.database();
        let lines = self.settings.lines();
        let sign_in: Vec<&str> = lines
            .filter(|line| line.starts_with("sign_in.") || line.starts_with("imap.session_names"))
            .collect();
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
{sign_in}
",
            key = self.state.join("latchmail.key").display(),
            socket = self.state.join("admin.sock").display(),
            url = database.url,
            mailserver = database.mailserver.display(),
            milter = database.milter.display(),
            with_milter = database.with_milter,
            dns = self.dns_server(),
            sign_in = sign_in.join("\n"),
            doveadm = self
                .has_mail()
                .map_or_else(String::new, MailServers::doveadm_settings),
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}
