//! A change whose response has arrived survives a SIGKILL of the host.

use std::time::Duration;

use futures_util::future::join_all;
use latchmail_directory::Directory;
use latchmail_directory::testing::number;
use latchmail_tests::process::kill;
use latchmail_tests::{Person, Random, Response, Service};
use serde_json::json;
use tokio::time::sleep;

const CLIENTS: usize = 8;
const KILLS: usize = 3;

/// Refreshes the tokens of a session until the host is killed. Returns the number of successful
/// responses.
async fn refresh_until_killed(person: &Person<'_>) -> usize {
    let mut token = person.refresh.clone();
    let mut confirmed = 0;
    loop {
        let request = person.service.request("POST /api/v1/auth/refresh");
        let body = json!({ "refreshToken": token });
        let Ok(response) = Response::try_of_json(request, &body).await else {
            return confirmed;
        };
        let pair = response.succeeds(200);
        pair["refreshToken"]
            .as_str()
            .unwrap()
            .clone_into(&mut token);
        confirmed += 1;
    }
}

/// Returns the number of refresh tokens in the database, which no service uses.
async fn stored_tokens(service: &Service) -> usize {
    let directory = Directory::open_beside_service(&service.database()).await;
    let directory = directory.unwrap();
    let stored = number(directory.db(), "SELECT COUNT(*) FROM refresh_tokens").await;
    directory.close().await;
    stored.unwrap().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_confirmed_refresh_survives_a_kill_of_the_host() {
    let mut service = Service::with_mail().await;
    let mut process = service.restart_in_process().await;
    let names = (0..CLIENTS).map(|number| format!("client{number}"));
    let register = |name: String| {
        let service = &service;
        async move { service.person(&name).await }
    };
    let people = join_all(names.map(register)).await;
    let mut random = Random::new(std::process::id().into());
    for _ in 0..KILLS {
        let sessions = join_all(people.iter().map(Person::sign_in_again)).await;
        let before = stored_tokens(&service).await;
        let killing = async {
            sleep(Duration::from_millis(300) + random.millis(500)).await;
            kill(process.pid());
        };
        let refreshing = join_all(sessions.iter().map(refresh_until_killed));
        let (confirmed, ()) = tokio::join!(refreshing, killing);
        let confirmed: usize = confirmed.iter().sum();
        assert!(confirmed > 0);
        // The last refresh of each client can be stored without a response.
        let stored = stored_tokens(&service).await - before;
        let possible = confirmed..=confirmed + CLIENTS;
        assert!(possible.contains(&stored), "{stored} not in {possible:?}");
        process.start().await;
    }
}
