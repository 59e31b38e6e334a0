//! Runs the tests of a module's project against a private service. The service and its mail servers
//! have a new folder, which is removed afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use latchmail_core::secrets;
use latchmail_mailserver::{Lookup, check_requirements};
use tokio::signal::unix::{SignalKind, signal};

use crate::service::{Options, Service, wait_for_signal};
use crate::state;
use crate::watch::{Project, Watcher, print_line};

/// The environment variable of tests with the path of `run.json` ([`crate::run_file`]).
const RUN_FILE: &str = "LATCHMAIL_RUN_FILE";

/// Builds the module in `folder`, installs it in a private service, and runs the tests of the
/// project. The environment variable `LATCHMAIL_RUN_FILE` of the tests has the path of the file
/// that describes the service. Returns whether the tests passed.
///
/// If this machine cannot run the mail servers, prints the reason, and runs the tests without a
/// service. Then the variable is not set.
///
/// # Errors
/// Returns an error if the module cannot be built or installed, or if the service cannot be
/// started.
pub async fn test(folder: &Path, mut options: Options) -> anyhow::Result<bool> {
    let project = Project::find(folder, false).await?;
    if let Err(reason) = check_requirements(&Lookup::Sqlite(PathBuf::new())) {
        print_line(&format!("the tests run without a service: {reason}"));
        return project.test(&[]).await;
    }
    let folder = std::env::temp_dir().join(format!("latchmail-test-{}", secrets::id()?));
    let environment = &mut options.environment;
    environment.insert("LATCHMAIL_STATE".into(), folder.display().to_string());
    environment.insert("LATCHMAIL_LISTEN".into(), "127.0.0.1:0".into());
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let tested = tokio::select! {
        tested = Box::pin(test_in(&project, &options)) => tested,
        // When the other future is dropped, the servers and the tests end.
        () = wait_for_signal(&mut interrupt, &mut terminate) => Ok(false),
    };
    remove(&folder)?;
    tested
}

async fn test_in(project: &Project, options: &Options) -> anyhow::Result<bool> {
    let state = state::create_folder(&options.environment)?;
    let mut watcher = Watcher::new(&[project.folder().to_owned()], false).await?;
    let service = Box::pin(Service::start(options, &state)).await?;
    let tested = async {
        service.build_outdated(&mut watcher).await?;
        project.test(&[(RUN_FILE, service.run_file.path())]).await
    }
    .await;
    service.stop().await?;
    tested
}

/// Removes the folder of the private service, and the folder of its mail servers.
fn remove(folder: &Path) -> anyhow::Result<()> {
    // The folder of the mail servers can be elsewhere (`state::mail_folder`).
    if let Ok(mail) = fs::read_link(folder.join("mail")) {
        fs::remove_dir_all(&mail).with_context(|| format!("cannot remove {}", mail.display()))?;
    }
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
