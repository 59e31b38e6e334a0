//! Tests with the directory in PostgreSQL.

use latchmail_mailserver::LocalServers;

use super::support::{
    ANN, Connection, Folder, PASSWORD, assert_mail_is_delivered,
    assert_only_the_app_password_logs_in, execute, postgres, submission,
};

#[tokio::test]
async fn the_mail_servers_read_postgresql_with_their_own_role() {
    let (lookup, directory) = postgres().await;
    let folder = Folder::new("pg");
    let stack = LocalServers::start(&folder.0, &lookup).await.unwrap();
    assert_only_the_app_password_logs_in(&stack).await;
    assert_mail_is_delivered(&stack).await;
    submission(&stack).await;
    execute(
        &directory,
        "REVOKE SELECT ON mailserver_passwords FROM latchmail_mailserver",
    )
    .await;
    let reply = Connection::open(stack.imap)
        .await
        .imap(&format!("LOGIN {ANN} {PASSWORD}"))
        .await;
    assert!(
        reply.starts_with("t NO [UNAVAILABLE]"),
        "the login uses the privileges of the role: {reply}"
    );
    stack.stop().await.unwrap();
}
