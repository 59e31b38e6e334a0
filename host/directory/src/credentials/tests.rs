use super::*;
use crate::testing::{DAY, Fresh, MONTH, NOW, both, new_app_password};

const PASSWORDS: &str =
    "SELECT address, app_password_id FROM mailserver_passwords ORDER BY app_password_id";

async fn made(fresh: &Fresh, account: &str, id: &str, kind: AppPasswordKind, at: Timestamp) {
    let password = new_app_password(id, kind);
    fresh.directory.hold(account, &password, at).await;
}

async fn whatever_can_reach_an_account_is_listed_newest_first(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s"]).await;
    directory.with("bob", "bob@example.org", &["b"]).await;
    made(
        &fresh,
        "ada",
        "client",
        AppPasswordKind::AppPassword,
        NOW.plus(DAY),
    )
    .await;
    made(
        &fresh,
        "ada",
        "grant",
        AppPasswordKind::OAuthGrant,
        NOW.plus(DAY),
    )
    .await;
    let listed = async |now| {
        let listed = directory.credentials.list("ada", now).await.unwrap();
        let ids = listed.into_iter().map(|credential| credential.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(NOW).await, ["client", "s-password"]);
    assert_eq!(
        listed(NOW.plus(MONTH)).await,
        ["client"],
        "a session that is over"
    );
}

async fn a_revoked_app_password_is_gone_for_the_mail_server_and_its_session_over(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s", "t"]).await;
    let origin = Origin::default();
    let revoke = async |account: &'static str, id: &'static str| {
        let revoked = directory
            .credentials
            .revoke_app_password(account, id, NOW, &origin)
            .await;
        revoked.unwrap()
    };
    let session = Revocation::Revoked(AppPasswordKind::WebSession);
    assert_eq!(revoke("ada", "s-password").await, session);
    assert_eq!(revoke("ada", "s-password").await, Revocation::Unknown);
    assert_eq!(revoke("bob", "t-password").await, Revocation::Unknown);
    assert!(directory.sessions.find("s", NOW).await.unwrap().is_none());
    assert!(directory.sessions.find("t", NOW).await.unwrap().is_some());
    let left = [("ada@example.org".to_owned(), "t-password".to_owned())];
    assert_eq!(fresh.as_mail_server(PASSWORDS).await, left);
}

async fn the_last_use_only_moves_forward(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s"]).await;
    for at in [NOW.plus(DAY), NOW] {
        let uses = HashMap::from([("s-password".to_owned(), at), ("gone".to_owned(), at)]);
        directory.credentials.write_uses(&uses).await.unwrap();
    }
    let listed = directory.credentials.list("ada", NOW).await.unwrap();
    assert_eq!(listed[0].last_used_at, Some(NOW.plus(DAY)));
}

async fn an_account_has_so_many_app_passwords_and_no_more(fresh: Fresh) {
    let directory = &fresh.directory;
    directory.with("ada", "ada@example.org", &["s"]).await;
    let origin = Origin::default();
    let create = async |id: String, sid: &'static str| {
        let password = new_app_password(&id, AppPasswordKind::AppPassword);
        let asking = SessionCaller {
            account_id: "ada",
            sid,
            at: NOW,
        };
        let made = directory
            .credentials
            .create_app_password(asking, &password, &origin);
        made.await.unwrap()
    };
    assert_eq!(
        create("p".into(), "over").await,
        CredentialCreation::SessionOver
    );
    for number in 0..MAX_APP_PASSWORDS {
        assert_eq!(
            create(format!("p{number}"), "s").await,
            CredentialCreation::Created
        );
    }
    assert_eq!(create("more".into(), "s").await, CredentialCreation::Full);
}

both!(
    whatever_can_reach_an_account_is_listed_newest_first,
    a_revoked_app_password_is_gone_for_the_mail_server_and_its_session_over,
    the_last_use_only_moves_forward,
    an_account_has_so_many_app_passwords_and_no_more,
);
