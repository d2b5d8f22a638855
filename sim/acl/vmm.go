package acl
