//! A rolling upgrade from the previous version, which may not know the newest migrations of the
//! database. `scripts/build-previous` builds it.

use std::path::PathBuf;
use std::time::Duration;

use latchmail_tests::{ProgramOutput, SeveralHosts, modules, program};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::load::Load;
use crate::several_hosts::limits;

const MIGRATIONS: &str = "SELECT max(version)::text FROM _sqlx_migrations";
/// Versions that do not know this migration do not start on a database that a later version has
/// migrated.
const FIRST_COMPATIBLE: i64 = 2;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn an_upgrade_of_one_host_after_the_other_fails_no_request() {
    let (old, old_modules) = (previous("latchmail"), previous("modules"));
    let mut all = SeveralHosts::start_version(&old, &old_modules).await;
    let before = migration(&all).await;
    let load = Load::start(&all).await;
    let begun = Instant::now();
    sleep(Duration::from_secs(5)).await;
    for number in 0..2 {
        // If the previous version does not have `http.drain_delay`, its host leaves the balancer
        // before the stop.
        all.upgrade(number, &program(), &modules()).await;
        assert_eq!(migration(&all).await, newest_migration());
        // Both versions, or the new version twice.
        sleep(Duration::from_secs(5)).await;
        for host in &all.hosts {
            let ada = json!({ "email": "ada@first.test", "password": latchmail_tests::PASSWORD });
            host.service
                .post("/api/v1/auth/login", &ada)
                .await
                .succeeds(200);
            host.service.send("GET /api/readiness").await.succeeds(200);
        }
    }
    // A restart of both hosts with the new version, which has `http.drain_delay`.
    for number in 0..2 {
        all.upgrade(number, &program(), &modules()).await;
    }
    limits::are_shared(&all).await;
    // The way back: the previous version starts on the new database.
    if before >= FIRST_COMPATIBLE {
        all.upgrade(0, &old, &old_modules).await;
        sleep(Duration::from_secs(5)).await;
    } else {
        let config = all.service.operator_config();
        let mut command = Command::new(&old);
        command
            .env_clear()
            .args(["account", "list", "--config"])
            .arg(config);
        println!(
            "the previous version on the new database: {:?}",
            ProgramOutput::of(&mut command, "").await
        );
    }
    println!("{}", load.summary(begun));
    load.assert_statuses(begun, &[]);
    load.end(&all, Duration::from_mins(1)).await;
}

async fn migration(all: &SeveralHosts) -> i64 {
    all.postgres.rows(MIGRATIONS).await[0].parse().unwrap()
}

/// Returns the number of the newest migration of the present version.
fn newest_migration() -> i64 {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../host/directory/migrations/postgres"
    );
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let numbers = names.map(|name| name.split('_').next().unwrap().parse::<i64>().unwrap());
    numbers.max().unwrap()
}

/// Returns the path of a file or folder of the previous version.
fn previous(name: &str) -> PathBuf {
    let path = modules().with_file_name("previous").join(name);
    let missing = path.display();
    assert!(
        path.exists(),
        "{missing} is missing; run ./scripts/build-previous"
    );
    path
}
