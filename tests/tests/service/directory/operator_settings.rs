//! Settings in the file and in the environment, and the errors for invalid ones.

use std::path::Path;

use latchmail_tests::{ProgramOutput, program};
use tokio::process::Command;

/// Runs the program with this configuration and this environment.
async fn run(
    folder: &Path,
    verb: &str,
    settings: &str,
    environment: &[(&str, &str)],
) -> ProgramOutput {
    let file = folder.join("latchmail.toml");
    let database = folder.join("latchmail.db");
    let text = format!(
        "{settings}\ndatabase.mailserver = '{}'\n",
        folder.join("mailserver.db").display()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(program());
    command.env_clear().env(
        "LATCHMAIL_DATABASE__URL",
        format!("sqlite:{}", database.display()),
    );
    command
        .envs(environment.iter().copied())
        .current_dir(folder);
    command.args(verb.split(' ')).arg("--config").arg(&file);
    ProgramOutput::of(&mut command, "").await
}

#[tokio::test]
async fn every_list_setting_can_be_set_in_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    for (variable, value) in [
        ("CORS_ORIGINS", "https://a.example,https://b.example"),
        ("HTTP__TRUSTED_PROXIES", "10.0.0.0/8,192.0.2.1"),
        ("MODULES__MAIL__GRANTS", "caller,mailbox"),
        ("MODULES__MAIL__HOSTS", "a.example,10.0.0.0/8"),
        ("MODULES__MAIL__PATHS", "/api/v1/mail,/api/v1/folders"),
        ("NEW_MODULES__GRANTS", "caller,mailbox"),
        ("NEW_MODULES__HOSTS", "a.example,10.0.0.0/8"),
        ("NEW_MODULES__PATHS", "/a/,/b/"),
        ("OAUTH__CLIENT_HOSTS", "http://127.0.0.1:1,10.0.0.0/8"),
        ("OAUTH__INTROSPECTION__AUDIENCE", "a,b"),
        ("REGISTRATION__DOMAINS", "a.example,b.example"),
    ] {
        let variable = format!("LATCHMAIL_{variable}");
        let output = run(folder.path(), "account list", "", &[(&variable, value)]).await;
        assert_eq!(
            (output.status, output.stderr.as_str()),
            (0, ""),
            "{variable}"
        );
    }
}

#[tokio::test]
async fn an_unencrypted_connection_to_another_machine_must_be_allowed() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, key) in [
        ("imap.address = 'mail.example.com:143'", "imap.insecure"),
        ("imap.doveadm = '192.0.2.1:8081'", "imap.insecure"),
        ("smtp.address = '[2001:db8::1]:587'", "smtp.insecure"),
    ] {
        let refused = run(folder.path(), "serve", setting, &[]).await;
        refused.fails_mentioning(&format!("`{key} = true`"));
        let allowed = format!("{setting}\n{key} = true");
        run(folder.path(), "account list", &allowed, &[])
            .await
            .succeeds();
    }
    let other_session = (
        "LATCHMAIL_DATABASE__URL",
        "postgres://ada:secret@192.0.2.1/latchmail",
    );
    for verb in ["serve", "account list", "milter"] {
        let settings = "listen = '127.0.0.1:0'\ninbound.listen = '127.0.0.1:0'\ninbound.authserv_id = 'mail.example.com'";
        let refused = run(folder.path(), verb, settings, &[other_session]).await;
        refused.fails_mentioning("`database.insecure = true`");
        assert!(!refused.stderr.contains("secret"), "{refused:?}");
    }
}
