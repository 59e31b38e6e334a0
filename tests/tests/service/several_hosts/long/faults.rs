//! The servers behind the hosts restart and pause under load. The hosts return errors that are
//! documented, recover without a restart, and lose nothing that they confirmed.

use std::time::Duration;

use latchmail_tests::SeveralHosts;
use latchmail_tests::process::{pid_of, signal_tree};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::load::Load;
use crate::several_hosts::limits;

const PAUSE: Duration = Duration::from_secs(10);
/// The maximum time until all requests succeed again.
const RECOVERY: Duration = Duration::from_secs(15);
/// The same after a failure of the database. Postfix up to version 3.8 does not try a connection to
/// PostgreSQL again for 60 seconds.
const RECOVERY_OF_POSTFIX: Duration = Duration::from_secs(100);
/// The maximum time until Postfix has delivered mail that it deferred.
const DELIVERY: Duration = Duration::from_mins(2);

/// 503 if a server does not respond, and 500 if the outcome of a change is unknown. The balancer
/// also returns 503 if no host is ready.
const ERRORS: [u16; 2] = [500, 503];

#[derive(Clone, Copy, Debug)]
enum Fault {
    PostgresRestart,
    PostgresCrash,
    PostgresPause,
    DovecotRestart,
    DovecotPause,
    PostfixRestart,
    PostfixPause,
    RedisRestart,
    RedisPause,
}

impl Fault {
    /// Returns the statuses of failed requests that are allowed. Without Redis, no request fails.
    fn allowed_errors(self) -> &'static [u16] {
        match self {
            Self::RedisRestart | Self::RedisPause => &[],
            _ => &ERRORS,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn hosts_recover_from_restarts_and_pauses_of_all_servers() {
    let mut all = SeveralHosts::start().await;
    let load = Load::start(&all).await;
    sleep(Duration::from_secs(5)).await;
    let faults = [
        // First, because the budgets of the hosts must be full.
        Fault::RedisPause,
        Fault::RedisRestart,
        Fault::DovecotRestart,
        Fault::DovecotPause,
        Fault::PostfixRestart,
        Fault::PostfixPause,
        Fault::PostgresPause,
        Fault::PostgresRestart,
        Fault::PostgresCrash,
    ];
    for fault in faults {
        let begun = Instant::now();
        cause(&mut all, fault).await;
        let ended = Instant::now();
        let max = match fault {
            Fault::PostgresRestart | Fault::PostgresCrash | Fault::PostgresPause => {
                RECOVERY_OF_POSTFIX
            }
            _ => RECOVERY,
        };
        let recovery = load.recovered(begun, ended, max).await;
        println!(
            "{fault:?} of {:?}: recovered after {recovery:?}\n{}",
            ended - begun,
            load.summary(begun)
        );
        load.assert_statuses(begun, fault.allowed_errors());
        for host in &mut all.hosts {
            assert!(host.process.is_running(), "{fault:?}");
            host.service.send("GET /api/readiness").await.succeeds(200);
        }
        limits::are_shared(&all).await;
    }
    load.end(&all, DELIVERY).await;
}

async fn cause(all: &mut SeveralHosts, fault: Fault) {
    match fault {
        Fault::PostgresRestart => all.postgres.restart().await,
        Fault::PostgresCrash => all.postgres.crash().await,
        Fault::PostgresPause => {
            all.postgres.pause();
            sleep(PAUSE).await;
            all.postgres.resume();
        }
        Fault::DovecotRestart => all.service.stack().restart_imap().await.unwrap(),
        Fault::DovecotPause => pause(all, "dovecot").await,
        Fault::PostfixRestart => all.service.stack().restart_postfix().await.unwrap(),
        Fault::PostfixPause => pause(all, "master").await,
        Fault::RedisRestart => {
            all.redis.stop();
            // Requests of both hosts fail to connect.
            sleep(Duration::from_secs(2)).await;
            all.redis.start_again().await;
        }
        Fault::RedisPause => {
            all.redis.pause();
            // The first requests of both hosts notice it.
            sleep(Duration::from_secs(1)).await;
            limits::are_separate(all).await;
            sleep(PAUSE).await;
            all.redis.resume();
        }
    }
}

/// Stops all processes of a mail server for some time. Processes that start at the same moment can
/// continue.
async fn pause(all: &SeveralHosts, name: &str) {
    let pid = pid_of(name, &all.service.state).unwrap();
    signal_tree(pid, Signal::STOP);
    sleep(PAUSE).await;
    signal_tree(pid, Signal::CONT);
}
