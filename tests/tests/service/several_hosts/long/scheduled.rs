//! Hosts are killed while they send scheduled messages.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_tests::process::kill;
use latchmail_tests::{Random, SeveralHosts};
use tokio::time::sleep;

use crate::mail::send::later::{cancel_racing, check_outcomes, schedule_many};

const MESSAGES: usize = 500;
const KILLS: usize = 50;
/// The time in which the messages are due, in seconds.
const SPREAD: i64 = 90;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes long; ./just test-all runs it"]
async fn each_scheduled_message_is_sent_once_or_cancelled_if_hosts_are_killed() {
    let mut all = SeveralHosts::start().await;
    let service = &all.service;
    let (mut ada, bob) = (service.person("ada").await, service.person("bob").await);
    let token = ada.token(&["mail:send", "mail:read"]).await;
    token["token"].as_str().unwrap().clone_into(&mut ada.access);
    let ids = schedule_many(&ada, &bob, MESSAGES, SPREAD).await;
    let kills = async {
        let mut random = Random::new(std::process::id().into());
        for number in 0..KILLS {
            let host = &mut all.hosts[number % 2];
            let pause = u64::try_from(random.below(1500)).unwrap();
            sleep(Duration::from_millis(pause)).await;
            kill(host.process.pid());
            host.process.start().await;
        }
    };
    let cancels = join_all((0..MESSAGES).step_by(7).map(async |number| {
        let at = SPREAD * i64::try_from(number).unwrap() / i64::try_from(MESSAGES).unwrap();
        sleep(Duration::from_secs(at.try_into().unwrap())).await;
        (number, cancel_racing(&ada, &ids[number]).await)
    }));
    let ((), cancelled) = tokio::join!(kills, cancels);
    let won = cancelled.iter().filter(|(_, won)| *won).count();
    println!("{won} of {} messages were cancelled", cancelled.len());
    check_outcomes(service, &ada, &bob, &cancelled, MESSAGES).await;
}
