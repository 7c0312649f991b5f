module github.com/retrydecider/decider

go 1.26
