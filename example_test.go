package broker_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasemq/broker"
)

// A whole broker within a test or a program, and an unmodified AWS client.
func Example() {
	ctx := context.Background()
	node, err := broker.Run(ctx) // in memory, on free loopback ports
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	client := sqs.New(sqs.Options{
		BaseEndpoint: aws.String("http://" + node.Addr("sqs")),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
	queue, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("orders")})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("hello")})
	if err != nil {
		log.Fatal(err)
	}
	got, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue.QueueUrl, WaitTimeSeconds: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range got.Messages {
		fmt.Println(*m.Body)
		_, err = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue.QueueUrl, ReceiptHandle: m.ReceiptHandle})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: hello
}
