//! Tests of logins to a mailbox, and of the folders of a new mailbox.

use super::support::{
    ANN, Connection, Folder, PASSWORD, assert_only_the_app_password_logs_in, execute, imap, stack,
};

#[tokio::test]
async fn a_new_mailbox_has_the_standard_folders_with_their_roles() {
    let folder = Folder::new("folders");
    let (stack, _directory) = stack(&folder).await;
    let list = imap(&stack).await.imap("LIST \"\" *").await;
    for role in ["Drafts", "Sent", "Junk", "Trash", "Archive"] {
        assert!(
            list.contains(&format!("\\{role}) \"/\" {role}\r\n")),
            "{list}"
        );
    }
    assert!(list.contains("INBOX"), "{list}");
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn only_the_app_password_of_the_account_logs_in() {
    let folder = Folder::new("login");
    let (stack, directory) = stack(&folder).await;
    assert_only_the_app_password_logs_in(&stack).await;
    execute(&directory, "DELETE FROM app_passwords").await;
    let reply = Connection::open(stack.imap)
        .await
        .imap(&format!("LOGIN {ANN} {PASSWORD}"))
        .await;
    assert!(
        reply.starts_with("t NO"),
        "a deleted app password is rejected at once: {reply}"
    );
    stack.stop().await.unwrap();
}

#[tokio::test]
async fn the_login_name_is_case_insensitive() {
    let folder = Folder::new("case");
    let (stack, _directory) = stack(&folder).await;
    let mut connection = Connection::open(stack.imap).await;
    let reply = connection
        .imap(&format!("LOGIN Ann@LATCHMAIL.test {PASSWORD}"))
        .await;
    assert!(reply.starts_with("t OK"), "{reply}");
    stack.stop().await.unwrap();
}
